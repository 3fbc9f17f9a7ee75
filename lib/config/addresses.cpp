#include "config/addresses.hpp"

#include "base/encoding.hpp"
#include "config/scalars.hpp"
#include "wire/address_policy.hpp"
#include "wire/url.hpp"

namespace outboxd::config {

using base::errc;
using base::make_error;

std::optional<listen_address> parse_listen(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    const auto port = parse_whole(text.substr(colon + 1));
    if (!port || *port < 0 || *port > 65535) return std::nullopt;
    std::string_view host = text.substr(0, colon);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    const auto address = wire::parse_ip(host);
    const bool local_name = base::iequals(host, "localhost");
    // A name other than localhost may mean any interface, so an address is asked for; an IPv6 address needs its brackets.
    if ((!address && !local_name) || (address && address->v6 != bracketed)) return std::nullopt;
    listen_address out{std::string(host), static_cast<std::uint16_t>(*port), local_name};
    if (address && !address->v6) out.loopback = address->bytes[0] == 127;
    if (address && address->v6) out.loopback = wire::to_string(*address) == "::1";
    return out;
}

base::result<void> check_proxy(std::string_view text) {
    constexpr std::string_view scheme = "http://";
    if (text.starts_with("https://")) return make_error(errc::bad_config, "a proxy is spoken to in plain HTTP: http://host:port");
    if (!text.starts_with(scheme)) return make_error(errc::bad_config, "must be http://host:port");
    std::string_view rest = text.substr(scheme.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    // Before the user is cut off: a slash within the password would end the host for other readers of the URL.
    if (rest.find_first_of("/?#") != std::string_view::npos) return make_error(errc::bad_config, "has a path, or its password wants percent-encoding: http://user:password@host:port");
    const std::size_t at = rest.rfind('@');
    if (at != std::string_view::npos) rest.remove_prefix(at + 1);
    if (!wire::parse_url(std::string(scheme) + std::string(rest))) return make_error(errc::bad_config, "its host or port is not valid: http://host:port");
    return {};
}

base::result<void> check_database_url(std::string_view text) {
    if (text.find_first_of(std::string_view{"\0\n\r", 3}) != std::string_view::npos) return make_error(errc::bad_config, "holds a line end or a NUL byte");
    if (text.starts_with("postgresql://") || text.starts_with("postgres://")) return {};
    const std::size_t equals = text.find('=');
    const std::size_t scheme = text.find("://");
    if (equals == std::string_view::npos || (scheme != std::string_view::npos && scheme < equals)) {
        return make_error(errc::bad_config, "must begin with postgresql:// or be in libpq's keyword form (host=... dbname=...)");
    }
    return {};
}

}  // namespace outboxd::config
