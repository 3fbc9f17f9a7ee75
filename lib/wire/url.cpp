#include "wire/url.hpp"

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <optional>

#include "base/encoding.hpp"
#include "wire/address_policy.hpp"
#include "wire/host_name.hpp"

namespace outboxd::wire {

namespace {

constexpr std::size_t max_url = 8192;

base::error bad(std::string text) {
    return base::make_error(base::errc::invalid_input, "URL refused: " + std::move(text));
}

// The part between `//` and the path, query or fragment; nullopt when there is no `//`.
std::optional<std::string_view> authority_of(std::string_view text) {
    const auto start = text.find("://");
    if (start == std::string_view::npos) return std::nullopt;
    const auto rest = text.substr(start + 3);
    return rest.substr(0, rest.find_first_of("/?#"));
}

// The faults that people really make, each with its way out; the grammar's own errors are too terse for that.
std::optional<base::error> common_fault(std::string_view text) {
    if (text.empty()) return bad("it is empty; write https://host/path");
    if (text.size() > max_url) return bad("it is longer than 8192 bytes");
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; };
    if (std::any_of(text.begin(), text.end(), is_control)) return bad("it holds a space or a control character; percent-encode it");
    const auto scheme = text.substr(0, text.find(':'));
    if (!base::iequals(scheme, "https") && !base::iequals(scheme, "http")) return bad("the scheme must be https; write https://host/path");
    const auto authority = authority_of(text);
    if (!authority || scheme.size() + 3 != static_cast<std::size_t>(authority->data() - text.data()))
        return bad("write https://host/path, with two slashes after the colon");
    if (authority->find('@') != std::string_view::npos) return bad("no user name or password may stand before the host; use a header instead");
    if (authority->empty() || authority->front() == ':') return bad("it has no host");
    if (authority->find('%') != std::string_view::npos) return bad("the host is percent-encoded or has a zone; write it plainly");
    const auto foreign = [](char c) { return static_cast<unsigned char>(c) > 0x7f; };
    if (std::any_of(authority->begin(), authority->end(), foreign)) return bad("the host is not ASCII; write its IDNA form (xn--...)");
    if (std::any_of(text.begin(), text.end(), foreign)) return bad("path and query must be ASCII; percent-encode the rest");
    return std::nullopt;
}

// Sets host and host_is_address. `text` is the host as written, brackets included.
base::result<void> read_host(std::string_view text, url& out) {
    if (text.starts_with('[')) {
        const auto address = text.ends_with(']') ? parse_ip(text.substr(1, text.size() - 2)) : std::nullopt;
        if (!address || !address->v6) return bad("the host in brackets is no IPv6 address");
        out.host = to_string(*address);
        out.host_is_address = true;
        return {};
    }
    if (text.ends_with('.')) text.remove_suffix(1);
    if (ends_in_number(text)) {
        const auto address = parse_ip(text);
        if (!address) return bad("the host is a number but no dotted IPv4 address; write four decimal numbers without leading zeros");
        out.host = to_string(*address);
        out.host_is_address = true;
        return {};
    }
    if (!is_host_name(text)) return bad("the host is no valid name; letters, digits, hyphens and dots are");
    out.host = base::to_lower_ascii(text);
    return {};
}

base::result<std::uint16_t> read_port(std::string_view text) {
    unsigned value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9' || value > 65535) return bad("the port must be a number from 1 to 65535");
        value = value * 10 + static_cast<unsigned>(c - '0');
    }
    if (value < 1 || value > 65535) return bad("the port must be a number from 1 to 65535");
    return static_cast<std::uint16_t>(value);
}

void fill_authority(url& u) {
    const bool bracketed = u.host_is_address && u.host.find(':') != std::string::npos;
    const std::string host = bracketed ? "[" + u.host + "]" : u.host;
    const std::string port = ":" + std::to_string(u.port);
    u.authority = u.port == (u.tls ? 443 : 80) ? host : host + port;
    u.origin = (u.tls ? "https://" : "http://") + host + port;
}

}  // namespace

// Boost.URL 1.81 reads some authorities differently from RFC 3986 (`h:44x` as port 44), so host and port are read here and only path and query by its grammar.
base::result<url> parse_url(std::string_view text) {
    if (auto fault = common_fault(text)) return *fault;
    const auto authority = *authority_of(text);
    url out;
    out.tls = text[4] == 's' || text[4] == 'S';
    const auto bracket = authority.rfind(']');
    const auto colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (const auto read = read_host(authority.substr(0, colon), out); !read) return read.error();
    out.port = out.tls ? 443 : 80;
    if (colon != std::string_view::npos) {
        const auto read = read_port(authority.substr(colon + 1));
        if (!read) return read.error();
        out.port = *read;
    }
    // Kept as written: what the user signed or encoded must arrive byte for byte.
    const auto rest = text.substr(static_cast<std::size_t>(authority.data() - text.data()) + authority.size());
    out.target = rest.substr(0, rest.find('#'));
    if (!out.target.starts_with('/')) out.target.insert(out.target.begin(), '/');
    if (!boost::urls::parse_origin_form(out.target)) return bad("path or query holds a character that RFC 3986 does not allow there; percent-encode it");
    fill_authority(out);
    return out;
}

base::result<void> check_scheme(const url& u, bool allow_http) {
    if (u.tls || allow_http) return {};
    return bad("http:// is not allowed; use https:// or set egress.allow_http: true");
}

std::string describe_url(std::string_view text) {
    if (const auto u = parse_url(text)) return base::printable(u->origin + u->target.substr(0, u->target.find('?')), 500);
    // Not a URL, so nobody knows where a password would stand in it: with an `@` nothing is shown.
    if (text.find('@') != std::string_view::npos) return "(invalid URL, not shown: it may hold a password)";
    return base::printable(text.substr(0, text.find_first_of("?#")), 200);
}

}  // namespace outboxd::wire
