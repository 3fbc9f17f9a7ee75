// A CONNECT proxy: its address, who goes past it, what is said to it (RFC 9110 section 9.3.6). Floor 4, used inside the room only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "wire/url.hpp"

namespace outboxd::https {

struct proxy_address {
    std::string host;
    bool host_is_address{false};
    std::uint16_t port{0};
    base::secret credentials;  // value of Proxy-Authorization; empty: none
};

// `http://[user:pass@]host[:port]`, user and password percent-encoded; port 3128 when none is given. Error: bad_config, never repeating the URL.
[[nodiscard]] base::result<proxy_address> parse_proxy(std::string_view url);
// Entries of egress.no_proxy: host names (and all below them), `.suffix`, `*.suffix`, addresses, CIDRs, each with an optional `:port`; `*` for all.
[[nodiscard]] bool goes_past_proxy(const std::vector<std::string>& no_proxy, const wire::url& target);
[[nodiscard]] std::string connect_head(const wire::url& target, const proxy_address& proxy);
// `host:port`, IPv6 in brackets.
[[nodiscard]] std::string host_and_port(const wire::url& target);

}  // namespace outboxd::https
