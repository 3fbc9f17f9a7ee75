// Fuzzes URL and egress rule reading. Whatever parses must hold the promises of the header, and parse again to the same value.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/address_policy.hpp"
#include "wire/url.hpp"

using namespace outboxd::wire;

static void require(bool holds) {
    if (!holds) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto u = parse_url(text)) {
        require(!u->host.empty() && u->port != 0 && u->target.starts_with('/'));
        require(u->target.find_first_of(std::string_view{"\r\n \0#", 5}) == std::string::npos);
        require(u->authority.find_first_of("\r\n @/%") == std::string::npos);
        require(u->host_is_address == parse_ip(u->host).has_value());
        const auto again = parse_url((u->tls ? "https://" : "http://") + u->authority + u->target);
        require(again && again->host == u->host && again->port == u->port && again->target == u->target);
    }
    for (const char c : describe_url(text)) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    if (const auto rule = parse_egress_rule(text)) require(rule->network.has_value() != !rule->host.empty());
    return 0;
}
