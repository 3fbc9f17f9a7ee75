#include "wire/address_policy.hpp"

#include "support/catch.hpp"

using namespace outboxd::wire;

namespace {

address_decision decide(const egress_policy& policy, const char* address, std::uint16_t port = 443, bool trusted = false, const char* host = "h.example") {
    return decide_address(policy, host, parse_ip(address).value(), port, trusted);
}

egress_policy policy_of(const std::vector<std::string>& allow, const std::vector<std::string>& deny = {}) {
    egress_policy p;
    for (const auto& text : allow) p.allow.push_back(parse_egress_rule(text).value());
    for (const auto& text : deny) p.deny.push_back(parse_egress_rule(text).value());
    return p;
}

}  // namespace

TEST_CASE("every not public range is denied by its name [B40]", "[wire][address]") {
    const std::pair<const char*, const char*> rows[] = {
        {"0.0.0.0", "unspecified"},
        {"0.1.2.3", "unspecified"},
        {"10.0.0.1", "private"},
        {"10.255.255.255", "private"},
        {"100.64.0.1", "cgnat"},
        {"100.127.255.255", "cgnat"},
        {"127.0.0.1", "loopback"},
        {"127.255.0.1", "loopback"},
        {"169.254.1.1", "link-local"},
        {"172.16.0.1", "private"},
        {"172.31.255.255", "private"},
        {"192.0.0.1", "reserved"},
        {"192.0.2.1", "documentation"},
        {"192.88.99.1", "reserved"},
        {"192.168.1.1", "private"},
        {"198.18.0.1", "benchmarking"},
        {"198.19.255.255", "benchmarking"},
        {"198.51.100.1", "documentation"},
        {"203.0.113.1", "documentation"},
        {"224.0.0.1", "multicast"},
        {"239.255.255.255", "multicast"},
        {"240.0.0.1", "reserved"},
        {"255.255.255.255", "broadcast"},
        {"192.31.196.1", "reserved"},
        {"192.52.193.1", "reserved"},
        {"192.175.48.1", "reserved"},
        {"::", "unspecified"},
        {"::1", "loopback"},
        {"::127.0.0.1", "loopback in ipv4-compatible"},
        {"::8.8.8.8", "ipv4-compatible"},
        {"::ffff:127.0.0.1", "loopback"},
        {"::ffff:7f00:1", "loopback"},
        {"::ffff:10.0.0.1", "private"},
        {"64:ff9b::7f00:1", "loopback"},
        {"64:ff9b::10.0.0.1", "private"},
        {"64:ff9b:1::10.0.0.1", "private in nat64-local"},
        {"64:ff9b:1::8.8.8.8", "nat64-local"},
        {"100::1", "discard"},
        {"100:0:0:1::1", "discard"},
        {"2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback in teredo"},
        {"2001:0:808:808:8000:63bf:f7f7:f7f7", "teredo"},
        {"2001:2::1", "benchmarking"},
        {"2001:10::1", "orchid"},
        {"2001:2f::1", "orchid"},
        {"2001:1::1", "reserved"},
        {"2001:db8::1", "documentation"},
        {"3fff::1", "documentation"},
        {"2002:7f00:1::", "loopback in 6to4"},
        {"2002:808:808::1", "6to4"},
        {"2620:4f:8000::1", "reserved"},
        {"5f00::1", "srv6"},
        {"fc00::1", "unique-local"},
        {"fd00::1", "unique-local"},
        {"fe80::1", "link-local"},
        {"fe81::1", "link-local"},
        {"febf::1", "link-local"},
        {"fec0::1", "site-local"},
        {"ff02::1", "multicast"},
        {"::ffff:0:127.0.0.1", "loopback in reserved"},
        {"4000::1", "reserved"},
        {"200::1", "reserved"},
    };
    for (const auto& [address, reason] : rows) {
        CAPTURE(address);
        const auto d = decide({}, address);
        CHECK_FALSE(d.allowed);
        CHECK(d.reason == reason);
    }
}

TEST_CASE("public addresses at the borders of the ranges are allowed", "[wire][address]") {
    for (const auto* address :
         {"1.0.0.1",        "9.255.255.255",  "11.0.0.0",         "100.63.255.255",  "100.128.0.0",  "126.255.255.255", "128.0.0.1",   "169.253.255.255",
          "172.15.255.255", "172.32.0.0",     "192.0.1.0",        "192.167.255.255", "192.169.0.0",  "198.17.255.255",  "198.20.0.0",  "223.255.255.255",
          "8.8.8.8",        "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1111", "2a00:1450::1", "2001:200::1",     "2001:db7::1", "2003::1"}) {
        CAPTURE(address);
        const auto d = decide({}, address);
        CHECK(d.allowed);
        CHECK(d.reason == "public");
    }
}

TEST_CASE("metadata addresses are denied unless named singly [B40]", "[wire][address]") {
    for (const auto* address : {"169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254", "169.254.170.2",
                                "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"}) {
        CAPTURE(address);
        CHECK(decide({}, address).reason == "metadata");
        CHECK(decide(policy_of({"0.0.0.0/0", "::/0", "169.254.0.0/16", "h.example"}), address).reason == "metadata");
        CHECK(decide({}, address, 443, true).reason == "metadata");
    }
    CHECK(decide(policy_of({"169.254.169.254"}), "169.254.169.254").reason == "egress.allow 169.254.169.254");
    CHECK(decide(policy_of({"169.254.169.254/32"}), "::ffff:169.254.169.254").allowed);
    CHECK_FALSE(decide(policy_of({"169.254.169.254:80"}), "169.254.169.254", 443).allowed);
    CHECK_FALSE(decide(policy_of({"169.254.169.254"}, {"169.254.0.0/16"}), "169.254.169.254").allowed);
    CHECK_FALSE(decide(policy_of({"169.254.169.253"}), "169.254.169.254").allowed);
}

TEST_CASE("deny beats allow, allow beats the ranges, trust beats the ranges only", "[wire][address]") {
    CHECK(decide(policy_of({"10.0.0.0/8"}), "10.1.2.3").reason == "egress.allow 10.0.0.0/8");
    CHECK(decide(policy_of({"10.0.0.0/8"}, {"10.1.0.0/16"}), "10.1.2.3").reason == "egress.deny 10.1.0.0/16");
    CHECK(decide(policy_of({"10.0.0.0/8"}), "::ffff:10.1.2.3").allowed);
    CHECK(decide(policy_of({"::ffff:10.0.0.0/104"}), "10.1.2.3").allowed);
    CHECK(decide(policy_of({"127.0.0.0/8"}), "::ffff:127.0.0.1").allowed);
    CHECK_FALSE(decide(policy_of({"127.0.0.0/8"}), "2002:7f00:1::").allowed);
    CHECK_FALSE(decide(policy_of({"127.0.0.0/8"}), "::1").allowed);
    CHECK_FALSE(decide(policy_of({}, {"8.8.8.0/24"}), "2002:808:808::1").allowed);
    CHECK(decide({}, "10.1.2.3", 443, true).reason == "trusted endpoint");
    CHECK(decide(policy_of({}, {"10.0.0.0/8"}), "10.1.2.3", 443, true).reason == "egress.deny 10.0.0.0/8");
    CHECK(decide(policy_of({}, {"8.8.8.8"}), "8.8.8.8").reason == "egress.deny 8.8.8.8");
    CHECK(decide(policy_of({}, {"fc00::/7"}), "fd00::1").reason == "egress.deny fc00::/7");
}

TEST_CASE("rules hold for their port, their name and names below a suffix", "[wire][address]") {
    const auto ports = policy_of({"10.0.0.0/8:8443"});
    CHECK(decide(ports, "10.0.0.1", 8443).allowed);
    CHECK_FALSE(decide(ports, "10.0.0.1", 443).allowed);
    const auto names = policy_of({"Internal.example", "*.corp.example:443"});
    CHECK(decide(names, "10.0.0.1", 1, false, "internal.EXAMPLE.").allowed);
    CHECK(decide(names, "10.0.0.1", 443, false, "a.b.corp.example").allowed);
    CHECK_FALSE(decide(names, "10.0.0.1", 444, false, "a.corp.example").allowed);
    CHECK_FALSE(decide(names, "10.0.0.1", 443, false, "corp.example").allowed);
    CHECK_FALSE(decide(names, "10.0.0.1", 443, false, "evilcorp.example").allowed);
    CHECK(decide(policy_of({}, {"*.bad.example"}), "8.8.8.8", 443, false, "x.bad.example").reason == "egress.deny *.bad.example");
}

TEST_CASE("this host's own addresses are denied", "[wire][address]") {
    egress_policy policy;
    policy.own_addresses = {parse_ip("8.8.4.4").value(), parse_ip("2a00::5").value()};
    CHECK(decide(policy, "8.8.4.4").reason == "own address");
    CHECK(decide(policy, "::ffff:8.8.4.4").reason == "own address");
    CHECK(decide(policy, "2a00::5").reason == "own address");
    CHECK(decide(policy, "8.8.4.5").allowed);
    CHECK(decide(policy, "8.8.4.4", 443, true).allowed);
}

TEST_CASE("names are judged before the lookup [B40]", "[wire][address]") {
    for (const auto* name : {"localhost", "LOCALHOST", "localhost.", "a.localhost"}) {
        CAPTURE(name);
        CHECK(decide_host({}, name, 443, false).reason == "localhost");
        CHECK(decide_host({}, name, 443, true).allowed);
        CHECK(decide_host(policy_of({"127.0.0.0/8"}), name, 443, false).allowed);
    }
    CHECK(decide_host(policy_of({"localhost"}), "localhost", 443, false).allowed);
    CHECK(decide_host({}, "notlocalhost", 443, false).allowed);
    CHECK(decide_host({}, "metadata.google.internal", 80, true).reason == "metadata");
    CHECK(decide_host(policy_of({"*.google.internal"}), "metadata.google.internal", 80, false).reason == "metadata");
    CHECK(decide_host(policy_of({"metadata.google.internal"}), "metadata.google.internal", 80, false).allowed);
    CHECK(decide_host(policy_of({"h.example"}, {"h.example:443"}), "H.example", 443, true).reason == "egress.deny h.example:443");
    CHECK(decide_host({}, "h.example", 443, false).allowed);
}

TEST_CASE("addresses are parsed strictly [B40]", "[wire][address]") {
    for (const auto* bad : {"", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "01.2.3.4", "1.2.3.4.", "1.2.3.256", "fe80::1%lo", "[::1]", "1::2::3",
                            "12345::", "::ffff:1.2.3", " 1.2.3.4"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_ip(bad).has_value());
    }
    const std::pair<const char*, const char*> good[] = {
        {"1.2.3.4", "1.2.3.4"}, {"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"}, {"::ffff:7f00:1", "::ffff:127.0.0.1"}, {"0:0:0:0:0:0:0:0", "::"}};
    for (const auto& [text, canonical] : good) CHECK(to_string(parse_ip(text).value()) == canonical);
}

TEST_CASE("egress rules are networks, addresses, names or suffixes with an optional port", "[wire][address]") {
    struct row {
        const char* text;
        const char* network;
        int prefix;
        const char* host;
        bool suffix;
        std::uint16_t port;
    };
    const row good[] = {{"10.0.0.0/8", "10.0.0.0", 8, "", false, 0},
                        {"10.1.2.3", "10.1.2.3", 32, "", false, 0},
                        {"10.0.0.0/8:443", "10.0.0.0", 8, "", false, 443},
                        {"10.1.2.3:80", "10.1.2.3", 32, "", false, 80},
                        {"::1", "::1", 128, "", false, 0},
                        {"fd00::/8", "fd00::", 8, "", false, 0},
                        {"[::1]:443", "::1", 128, "", false, 443},
                        {"[fd00::/8]:443", "fd00::", 8, "", false, 443},
                        {"[fd00::]/8:443", "fd00::", 8, "", false, 443},
                        {"[::1]", "::1", 128, "", false, 0},
                        {"0.0.0.0/0", "0.0.0.0", 0, "", false, 0},
                        {"Host.Example", "", 0, "host.example", false, 0},
                        {"host:8080", "", 0, "host", false, 8080},
                        {"*.Example.com", "", 0, "example.com", true, 0},
                        {"*.example.com:1", "", 0, "example.com", true, 1},
                        {"host.example.", "", 0, "host.example", false, 0}};
    for (const auto& r : good) {
        CAPTURE(r.text);
        const auto rule = parse_egress_rule(r.text);
        REQUIRE(rule.has_value());
        CHECK((rule->network ? to_string(*rule->network) : "") == r.network);
        CHECK(rule->prefix == r.prefix);
        CHECK(rule->host == r.host);
        CHECK(rule->suffix == r.suffix);
        CHECK(rule->port == r.port);
        CHECK(rule->text == r.text);
    }
    for (const auto* bad : {"",           "10.0.0.0/33", "10.0.0.1/8", "fd00::1/8", "::/129", "10.0.0.0/",  "10.0.0.0/-1", "10.0.0.0/8:0",
                            "host:65536", "host:",       "host:x",     "127.1",     "0x7f.1", "2130706433", "*",           "*.",
                            "a.*.b",      "[::1",        "http://h",   "h/8",       "user@h", "ho st",      "[h]x",        "[10.0.0.1]"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_egress_rule(bad).has_value());
    }
}
