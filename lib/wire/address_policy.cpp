#include "wire/address_policy.hpp"

#include <algorithm>

#include "base/encoding.hpp"

namespace outboxd::wire {

namespace {

using octets16 = std::array<std::uint8_t, 16>;

struct range {
    octets16 network;
    int prefix;
    std::string_view name;
};

// First match decides, so narrow ranges stand before the wide ones that hold them. IANA IPv4 Special-Purpose Address Registry.
constexpr range v4_ranges[] = {
    {{0, 0, 0, 0}, 8, "unspecified"},          // RFC 1122; Linux connects 0.0.0.0 to itself
    {{10, 0, 0, 0}, 8, "private"},             // RFC 1918
    {{100, 64, 0, 0}, 10, "cgnat"},            // RFC 6598
    {{127, 0, 0, 0}, 8, "loopback"},           // RFC 1122
    {{169, 254, 0, 0}, 16, "link-local"},      // RFC 3927
    {{172, 16, 0, 0}, 12, "private"},          // RFC 1918
    {{192, 0, 0, 0}, 24, "reserved"},          // RFC 6890, IETF protocol assignments
    {{192, 0, 2, 0}, 24, "documentation"},     // RFC 5737
    {{192, 31, 196, 0}, 24, "reserved"},       // RFC 7535, AS112
    {{192, 52, 193, 0}, 24, "reserved"},       // RFC 7450, AMT
    {{192, 88, 99, 0}, 24, "reserved"},        // RFC 7526, 6to4 relay
    {{192, 168, 0, 0}, 16, "private"},         // RFC 1918
    {{192, 175, 48, 0}, 24, "reserved"},       // RFC 7534, AS112
    {{198, 18, 0, 0}, 15, "benchmarking"},     // RFC 2544
    {{198, 51, 100, 0}, 24, "documentation"},  // RFC 5737
    {{203, 0, 113, 0}, 24, "documentation"},   // RFC 5737
    {{224, 0, 0, 0}, 4, "multicast"},          // RFC 1112
    {{255, 255, 255, 255}, 32, "broadcast"},   // RFC 919
    {{240, 0, 0, 0}, 4, "reserved"},           // RFC 1112
};

// IANA IPv6 Special-Purpose Address Registry. What lies outside 2000::/3 and in no row is `reserved`.
constexpr range v6_ranges[] = {
    {{}, 128, "unspecified"},                                             // ::
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, "loopback"},  // ::1
    {{}, 96, "ipv4-compatible"},                                          // RFC 4291, withdrawn: nobody has such an address
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 48, "nat64-local"},                     // RFC 8215: where it leads is known to the local network only
    {{1, 0, 0, 0, 0, 0, 0, 0}, 64, "discard"},                            // RFC 6666
    {{1, 0, 0, 0, 0, 0, 0, 1}, 64, "discard"},                            // RFC 9780
    {{0x20, 0x01, 0, 0}, 32, "teredo"},                                   // RFC 4380
    {{0x20, 0x01, 0, 2, 0, 0}, 48, "benchmarking"},                       // RFC 5180
    {{0x20, 0x01, 0, 0x10}, 28, "orchid"},                                // RFC 4843
    {{0x20, 0x01, 0, 0x20}, 28, "orchid"},                                // RFC 7343
    {{0x20, 0x01, 0, 0}, 23, "reserved"},                                 // RFC 2928, IETF protocol assignments
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},                      // RFC 3849
    {{0x20, 0x02}, 16, "6to4"},                                           // RFC 7526, withdrawn
    {{0x26, 0x20, 0, 0x4f, 0x80, 0}, 48, "reserved"},                     // RFC 7534, AS112
    {{0x3f, 0xff, 0}, 20, "documentation"},                               // RFC 9637
    {{0x5f, 0}, 16, "srv6"},                                              // RFC 9602
    {{0xfc}, 7, "unique-local"},                                          // RFC 4193
    {{0xfe, 0x80}, 10, "link-local"},                                     // RFC 4291
    {{0xfe, 0xc0}, 10, "site-local"},                                     // RFC 3879
    {{0xff}, 8, "multicast"},                                             // RFC 4291
};

// Where clouds hand out credentials. Denied even when the private range around them is allowed.
constexpr std::string_view metadata_addresses[] = {
    "169.254.169.254",     // AWS, Azure, Google, Oracle, DigitalOcean, OpenStack, Hetzner and more
    "169.254.170.2",       // AWS ECS container credentials
    "169.254.170.23",      // AWS EKS pod identity
    "169.254.0.23",        // Tencent
    "100.100.100.200",     // Alibaba
    "168.63.129.16",       // Azure wire server
    "192.0.0.192",         // Oracle Cloud classic
    "fd00:ec2::254",       // AWS
    "fd00:ec2::23",        // AWS EKS pod identity
    "fd20:ce::254",        // Google
    "fd00:c1::a9fe:a9fe",  // Oracle
    "fd00:42::42",         // Scaleway
    "fe80::a9fe:a9fe",     // OpenStack
};
constexpr std::string_view metadata_names[] = {"metadata.google.internal", "metadata.goog",           "metadata", "instance-data", "instance-data.ec2.internal",
                                               "metadata.tencentyun.com",  "metadata.oraclecloud.com"};

bool in_network(const octets16& address, const octets16& network, int prefix) {
    const auto whole = static_cast<std::size_t>(prefix / 8);
    if (!std::equal(network.begin(), network.begin() + static_cast<std::ptrdiff_t>(whole), address.begin())) return false;
    const int rest = prefix % 8;
    if (rest == 0) return true;
    const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
    return (address[whole] & mask) == (network[whole] & mask);
}

ip_address embedded(const ip_address& a, std::size_t at, std::uint8_t flip = 0) {
    ip_address out;
    for (std::size_t i = 0; i < 4; ++i) out.bytes[i] = static_cast<std::uint8_t>(a.bytes[at + i] ^ flip);
    return out;
}

// What an address stands for. `same`: other spellings of the very destination, to which IPv4 rules apply in full. `inside`: IPv4 addresses that packets may be
// carried on to.
struct views {
    std::vector<ip_address> same;
    std::vector<ip_address> inside;
};

views unwrap(const ip_address& a) {
    constexpr octets16 mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    constexpr octets16 translated{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    constexpr octets16 nat64{0, 0x64, 0xff, 0x9b};
    constexpr octets16 nat64_local{0, 0x64, 0xff, 0x9b, 0, 1};
    views out{{a}, {}};
    if (!a.v6) return out;
    if (in_network(a.bytes, mapped, 96))
        out.same = {embedded(a, 12)};  // the system connects by IPv4: nothing of IPv6 is left
    else if (in_network(a.bytes, nat64, 96))
        out.same.push_back(embedded(a, 12));
    else if (in_network(a.bytes, nat64_local, 48) || in_network(a.bytes, translated, 96))
        out.inside.push_back(embedded(a, 12));
    else if (in_network(a.bytes, {}, 96))
        out.inside.push_back(embedded(a, 12));
    else if (in_network(a.bytes, {0x20, 0x02}, 16))
        out.inside.push_back(embedded(a, 2));
    else if (in_network(a.bytes, {0x20, 0x01, 0, 0}, 32))
        out.inside = {embedded(a, 12, 0xff), embedded(a, 4)};  // client (inverted) and server
    return out;
}

bool is_nat64(const ip_address& a) {
    return a.v6 && in_network(a.bytes, {0, 0x64, 0xff, 0x9b}, 96);
}

// Name of the range that makes an address not public; empty for public ones.
std::string_view not_public(const ip_address& a) {
    if (is_nat64(a)) return {};  // as public as the IPv4 address in it, which is judged too
    const auto* first = a.v6 ? std::begin(v6_ranges) : std::begin(v4_ranges);
    const auto* last = a.v6 ? std::end(v6_ranges) : std::end(v4_ranges);
    const auto* found = std::find_if(first, last, [&a](const range& r) { return in_network(a.bytes, r.network, r.prefix); });
    if (found != last) return found->name;
    return a.v6 && !in_network(a.bytes, {0x20}, 3) ? "reserved" : std::string_view{};
}

bool is_metadata(const ip_address& a) {
    return std::any_of(std::begin(metadata_addresses), std::end(metadata_addresses), [&a](std::string_view text) { return parse_ip(text) == a; });
}

bool port_fits(const egress_rule& rule, std::uint16_t port) {
    return rule.port == 0 || rule.port == port;
}

bool network_fits(const egress_rule& rule, const ip_address& a) {
    if (!rule.network) return false;
    // A rule written in the mapped form means the IPv4 address (B40: the forms follow one rule).
    const auto own = rule.prefix >= 96 ? unwrap(*rule.network).same.front() : *rule.network;
    const int prefix = own.v6 == rule.network->v6 ? rule.prefix : rule.prefix - 96;
    return own.v6 == a.v6 && in_network(a.bytes, own.bytes, prefix);
}

bool host_fits(const egress_rule& rule, std::string_view host) {
    if (rule.host.empty()) return false;
    if (!rule.suffix) return base::iequals(rule.host, host);
    return host.size() > rule.host.size() + 1 && base::iequals(host.substr(host.size() - rule.host.size()), rule.host) &&
           host[host.size() - rule.host.size() - 1] == '.';
}

bool any_fits(const egress_rule& rule, const std::vector<ip_address>& addresses) {
    return std::any_of(addresses.begin(), addresses.end(), [&rule](const ip_address& a) { return network_fits(rule, a); });
}

bool names_singly(const egress_rule& rule, const ip_address& a) {
    return rule.network && rule.prefix == (rule.network->v6 ? 128 : 32) && network_fits(rule, a);
}

std::string_view without_dot(std::string_view host) {
    return host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
}

// The metadata rule; nullopt when the address has nothing to do with it.
std::optional<address_decision> decide_metadata(const egress_policy& policy, const views& v, std::uint16_t port) {
    std::vector<ip_address> all = v.same;
    all.insert(all.end(), v.inside.begin(), v.inside.end());
    for (const auto& a : all) {
        if (!is_metadata(a)) continue;
        const auto named = [&](const egress_rule& rule) { return port_fits(rule, port) && names_singly(rule, a); };
        if (std::none_of(policy.allow.begin(), policy.allow.end(), named)) return address_decision{false, "metadata"};
    }
    return std::nullopt;
}

}  // namespace

address_decision decide_address(const egress_policy& policy, std::string_view host, const ip_address& address, std::uint16_t port, bool trusted) {
    const auto v = unwrap(address);
    host = without_dot(host);
    if (const auto decision = decide_metadata(policy, v, port)) return *decision;
    for (const auto& rule : policy.deny) {
        if (port_fits(rule, port) && (host_fits(rule, host) || any_fits(rule, v.same) || any_fits(rule, v.inside))) return {false, "egress.deny " + rule.text};
    }
    for (const auto& rule : policy.allow) {
        if (port_fits(rule, port) && (host_fits(rule, host) || any_fits(rule, v.same))) return {true, "egress.allow " + rule.text};
    }
    if (trusted) return {true, "trusted endpoint"};
    // The embedded address first: `loopback` tells more than `6to4`.
    for (const auto& a : v.inside) {
        if (const auto name = not_public(a);
            !name.empty() && !not_public(address).empty() && not_public(address) != "unspecified" && not_public(address) != "loopback")
            return {false, std::string(name) + " in " + std::string(not_public(address))};
    }
    for (const auto& a : v.same) {
        if (const auto name = not_public(a); !name.empty()) return {false, std::string(name)};
    }
    for (const auto& own : policy.own_addresses) {
        const auto mine = unwrap(own).same;
        const auto shared = [&mine](const ip_address& a) { return std::find(mine.begin(), mine.end(), a) != mine.end(); };
        if (std::any_of(v.same.begin(), v.same.end(), shared)) return {false, "own address"};
    }
    return {true, "public"};
}

address_decision decide_host(const egress_policy& policy, std::string_view host, std::uint16_t port, bool trusted) {
    host = without_dot(host);
    const auto by_name = [&](const egress_rule& rule) { return port_fits(rule, port) && host_fits(rule, host); };
    const auto is_name = [host](std::string_view name) { return base::iequals(name, host); };
    const bool metadata = std::any_of(std::begin(metadata_names), std::end(metadata_names), is_name);
    const auto singly = [&](const egress_rule& rule) { return by_name(rule) && !rule.suffix; };
    if (metadata && std::none_of(policy.allow.begin(), policy.allow.end(), singly)) return {false, "metadata"};
    if (const auto denied = std::find_if(policy.deny.begin(), policy.deny.end(), by_name); denied != policy.deny.end())
        return {false, "egress.deny " + denied->text};
    if (const auto allowed = std::find_if(policy.allow.begin(), policy.allow.end(), by_name); allowed != policy.allow.end())
        return {true, "egress.allow " + allowed->text};
    if (trusted) return {true, "trusted endpoint"};
    const bool local = base::iequals(host, "localhost") || (host.size() > 10 && base::iequals(host.substr(host.size() - 10), ".localhost"));
    if (!local) return {true, "name"};
    // Allowing loopback by its network allows its name as well; the address is then judged anyway.
    const auto covers_loopback = [&](const egress_rule& rule) {
        return port_fits(rule, port) && (network_fits(rule, *parse_ip("127.0.0.1")) || network_fits(rule, *parse_ip("::1")));
    };
    if (std::any_of(policy.allow.begin(), policy.allow.end(), covers_loopback)) return {true, "name"};
    return {false, "localhost"};
}

}  // namespace outboxd::wire
