// Addresses in the configuration that are no URLs of endpoints: the listener, the proxy, PostgreSQL. Floor 2, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace outboxd::config {

struct listen_address {
    std::string host;  // without brackets
    std::uint16_t port{0};
    bool loopback{false};  // 127.0.0.0/8, ::1, localhost
};
// `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`, `0.0.0.0:9464`; port 0 takes a free one.
[[nodiscard]] std::optional<listen_address> parse_listen(std::string_view text);

// `http://[user[:password]@]host[:port]`. Error: bad_config; never repeats the text.
[[nodiscard]] base::result<void> check_proxy(std::string_view text);

// A URL of PostgreSQL or libpq's keyword form, as far as that can be said without libpq. Error: bad_config; never repeats the text.
[[nodiscard]] base::result<void> check_database_url(std::string_view text);

}  // namespace outboxd::config
