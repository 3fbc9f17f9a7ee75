// Reading of egress.allow and egress.deny entries, and of IP addresses.
#include <arpa/inet.h>

#include <algorithm>

#include "base/encoding.hpp"
#include "wire/address_policy.hpp"
#include "wire/host_name.hpp"

namespace outboxd::wire {

namespace {

base::error bad_rule(std::string_view text, std::string_view why) {
    return base::make_error(base::errc::invalid_input, "egress rule '" + base::printable(text, 80) + "' " + std::string(why));
}

// A decimal number of at most five digits; nullopt for anything else.
std::optional<int> number(std::string_view text) {
    if (text.empty() || text.size() > 5) return std::nullopt;
    int value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return std::nullopt;
        value = value * 10 + (c - '0');
    }
    return value;
}

bool host_bits_clear(const ip_address& a, int prefix) {
    for (int bit = prefix; bit < (a.v6 ? 128 : 32); ++bit) {
        if ((a.bytes[static_cast<std::size_t>(bit / 8)] >> (7 - bit % 8) & 1) != 0) return false;
    }
    return true;
}

// `address` or `address/prefix`. nullopt: the text before the slash is no address; an error: it is, but the rest is wrong.
std::optional<base::result<void>> read_network(std::string_view text, egress_rule& out) {
    const auto slash = text.find('/');
    const auto address = parse_ip(text.substr(0, slash));
    if (!address) return std::nullopt;
    out.network = address;
    const int full = address->v6 ? 128 : 32;
    out.prefix = full;
    if (slash == std::string_view::npos) return base::result<void>{};
    const auto prefix = number(text.substr(slash + 1));
    if (!prefix || *prefix > full) return base::result<void>{bad_rule(out.text, "has a prefix length that is no number from 0 to " + std::to_string(full))};
    if (!host_bits_clear(*address, *prefix)) return base::result<void>{bad_rule(out.text, "has bits set behind its prefix; write the network's own address")};
    out.prefix = *prefix;
    return base::result<void>{};
}

// Splits off `:port`. IPv6 needs brackets for it: `[fd00::/8]:443` or `[fd00::]/8:443`.
// The result is without brackets; `bracketed` tells whether there were some.
base::result<std::string> take_port(std::string_view text, egress_rule& out, bool& bracketed) {
    const auto colon = text.rfind(':');
    const bool bare_v6 = colon != std::string_view::npos && text.find(':') != colon && !text.starts_with('[');
    const auto close = text.find(']');
    const bool inside = close != std::string_view::npos && colon != std::string_view::npos && colon < close;
    std::string rest(text);
    if (colon != std::string_view::npos && !bare_v6 && !inside) {
        const auto port = number(text.substr(colon + 1));
        if (!port || *port < 1 || *port > 65535) return bad_rule(out.text, "has a port that is no number from 1 to 65535");
        out.port = static_cast<std::uint16_t>(*port);
        rest.resize(colon);
    }
    bracketed = rest.starts_with('[');
    if (bracketed) {
        if (close == std::string_view::npos) return bad_rule(out.text, "has no closing bracket");
        rest.erase(close, 1);
        rest.erase(0, 1);
    }
    return rest;
}

}  // namespace

std::optional<ip_address> parse_ip(std::string_view text) {
    char room[INET6_ADDRSTRLEN + 1] = {};
    if (text.empty() || text.size() >= sizeof room || text.find('\0') != std::string_view::npos) return std::nullopt;
    std::copy(text.begin(), text.end(), room);
    ip_address out;
    out.v6 = text.find(':') != std::string_view::npos;
    if (::inet_pton(out.v6 ? AF_INET6 : AF_INET, room, out.bytes.data()) != 1) return std::nullopt;
    return out;
}

std::string to_string(const ip_address& a) {
    char room[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(a.v6 ? AF_INET6 : AF_INET, a.bytes.data(), room, sizeof room);
    return room;
}

base::result<egress_rule> parse_egress_rule(std::string_view text) {
    egress_rule out;
    out.text = std::string(text);
    bool bracketed = false;
    const auto rest = take_port(text, out, bracketed);
    if (!rest) return rest.error();
    if (const auto network = read_network(*rest, out)) {
        if (!*network) return network->error();
        if (!bracketed || out.network->v6) return out;
    }
    if (bracketed) return bad_rule(text, "has brackets around something that is no IPv6 network");
    std::string host = base::to_lower_ascii(*rest);
    if (host.starts_with("*.")) {
        out.suffix = true;
        host.erase(0, 2);
    }
    if (host.ends_with('.')) host.pop_back();
    if (ends_in_number(host)) return bad_rule(text, "is a number but no address; write 10.1.2.3 or 10.0.0.0/8");
    if (!is_host_name(host)) return bad_rule(text, "is no network (10.0.0.0/8), address, host name or *.suffix, each with an optional :port");
    out.host = std::move(host);
    return out;
}

}  // namespace outboxd::wire
