// Which network addresses may be connected to, with a named reason per range. Floor 1, pure: a table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace outboxd::wire {

// Network byte order; IPv4 in the first four bytes.
struct ip_address {
    std::array<std::uint8_t, 16> bytes{};
    bool v6{false};
    friend bool operator==(const ip_address&, const ip_address&) = default;
};
[[nodiscard]] std::optional<ip_address> parse_ip(std::string_view text);  // strict: dotted quad or RFC 4291 text, no zone
[[nodiscard]] std::string to_string(const ip_address& a);                 // RFC 5952

// An entry of egress.allow / egress.deny: CIDR, address, host name, `*.suffix`, each with an optional `:port`.
struct egress_rule {
    std::string text;
    std::optional<ip_address> network;
    int prefix{0};
    std::string host;       // lower case; empty for a network
    bool suffix{false};     // `*.example.com`: any name below, not the name itself
    std::uint16_t port{0};  // 0: any
};
[[nodiscard]] base::result<egress_rule> parse_egress_rule(std::string_view text);

struct egress_policy {
    std::vector<egress_rule> allow;
    std::vector<egress_rule> deny;
    bool allow_http{false};
    std::vector<ip_address> own_addresses;  // of this host's interfaces
};

struct address_decision {
    bool allowed{false};
    std::string reason;  // name of the rule: `public`, `loopback`, `private`, `metadata`, `egress.deny 10.0.0.0/8`, `trusted endpoint` ...
};
// The order: metadata unless named singly; deny; allow; not public ranges (embedded IPv4 unwrapped first: mapped, compatible, NAT64, 6to4, Teredo); own
// addresses; public. `trusted`: the endpoint comes from the configuration file and egress.trust_config_endpoints holds; overrides all but deny and metadata.
[[nodiscard]] address_decision decide_address(const egress_policy& policy, std::string_view host, const ip_address& address, std::uint16_t port, bool trusted);
// Before a lookup: names denied by name, `localhost`.
[[nodiscard]] address_decision decide_host(const egress_policy& policy, std::string_view host, std::uint16_t port, bool trusted);

}  // namespace outboxd::wire
