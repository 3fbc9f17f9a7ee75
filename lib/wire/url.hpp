// Where a request goes. Floor 1, pure (Boost.URL stays in url.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace outboxd::wire {

struct url {
    bool tls{true};
    std::string host;  // lower case, no brackets, no trailing dot; a name or an address in its canonical text form
    bool host_is_address{false};
    std::uint16_t port{443};
    std::string target;     // path and query byte for byte as given, `/` when the path is empty, fragment dropped
    std::string authority;  // value of the Host header: host (IPv6 in brackets), port only when it is not the scheme's default
    std::string origin;     // scheme://host:port, port always there: the default lane of a direct URL
};

// At most 8192 bytes; https (http parses too: `allow_http` is the caller's decision, see check_scheme); no userinfo; port 1..65535; host a valid name
// (host_name.hpp; IDNA A-labels; U-labels are refused with a hint), a strict dotted-quad or a bracketed IPv6 literal without zone. Numeric spellings such as
// 0x7f.1, 2130706433, 0177.0.0.1, percent-encoded hosts are refused. RFC 3986. Error: invalid_input, naming the fault and the accepted form, never repeating
// userinfo or query.
[[nodiscard]] base::result<url> parse_url(std::string_view text);
[[nodiscard]] base::result<void> check_scheme(const url& u, bool allow_http);
// For logs and errors: scheme://host:port/path without userinfo, query and fragment.
[[nodiscard]] std::string describe_url(std::string_view text);

}  // namespace outboxd::wire
