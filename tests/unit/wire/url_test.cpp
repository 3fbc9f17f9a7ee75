#include "wire/url.hpp"

#include "support/catch.hpp"

using namespace outboxd::wire;

TEST_CASE("the target is the configured path and query byte for byte [B35]", "[wire][url]") {
    struct row {
        const char *text, *authority, *target, *origin;
    };
    const row rows[] = {
        {"https://127.0.0.1:8443/a%2Fb/c%20d?sp=%2Ft%2Fr&sig=a-b_c%3D&e=&x#frag", "127.0.0.1:8443", "/a%2Fb/c%20d?sp=%2Ft%2Fr&sig=a-b_c%3D&e=&x",
         "https://127.0.0.1:8443"},
        {"https://h.example?x=1", "h.example", "/?x=1", "https://h.example:443"},
        {"https://h.example", "h.example", "/", "https://h.example:443"},
        {"https://h.example#f", "h.example", "/", "https://h.example:443"},
        {"https://h.example//double/../up/./x", "h.example", "//double/../up/./x", "https://h.example:443"},
        {"https://h.example?", "h.example", "/?", "https://h.example:443"},
        {"https://[::1]:8443/p", "[::1]:8443", "/p", "https://[::1]:8443"},
        {"https://[2001:DB8:0:0::1]/p", "[2001:db8::1]", "/p", "https://[2001:db8::1]:443"},
        {"HTTPS://Billing.Example.COM:443/Path", "billing.example.com", "/Path", "https://billing.example.com:443"},
        {"http://h.example:80/", "h.example", "/", "http://h.example:80"},
        {"http://h.example:443/", "h.example:443", "/", "http://h.example:443"},
        {"https://h.example.:8443/", "h.example:8443", "/", "https://h.example:8443"},
        {"https://my_service:8443/", "my_service:8443", "/", "https://my_service:8443"},
        {"https://xn--mnchen-3ya.example/", "xn--mnchen-3ya.example", "/", "https://xn--mnchen-3ya.example:443"},
        {"https://h.example/p?at=a@b:c/d?e", "h.example", "/p?at=a@b:c/d?e", "https://h.example:443"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.text);
        const auto u = parse_url(r.text);
        REQUIRE(u.has_value());
        CHECK(u->authority == r.authority);
        CHECK(u->target == r.target);
        CHECK(u->origin == r.origin);
    }
}

TEST_CASE("an address as host is known as one", "[wire][url]") {
    CHECK(parse_url("https://[::1]/")->host_is_address);
    CHECK(parse_url("https://[::1]/")->host == "::1");
    CHECK(parse_url("https://10.0.0.1/")->host_is_address);
    CHECK_FALSE(parse_url("https://ten.example/")->host_is_address);
}

TEST_CASE("a URL that is not exact is refused with its fault [B10] [B35] [B40]", "[wire][url]") {
    const std::pair<std::string, const char*> rows[] = {
        {"", "empty"},
        {"https://h/" + std::string(8192, 'a'), "longer"},
        {"https://h/a b", "space"},
        {"https://h/a\nb", "control"},
        {std::string("https://h/a\0b", 13), "control"},
        {"ftp://h/", "scheme"},
        {"h.example/p", "scheme"},
        {"https:/h/", "two slashes"},
        {"https:h://x/", "two slashes"},
        {"http://", "no host"},
        {"https://:443/", "no host"},
        {"https:///path", "no host"},
        {"https://user:secret@h/", "user name"},
        {"https://user@h/", "user name"},
        {"https://h:0/", "port"},
        {"https://h:65536/", "port"},
        {"https://h:99999999999999999999/", "port"},
        {"https://h:/", "port"},
        {"https://h:44x/", "port"},
        {"https://[::1]x/", "brackets"},
        {"https://[::1]:/", "port"},
        {"https://a:1:2/", "port"},
        {"https://h/a[b", "3986"},
        {"https://127.1/", "number"},
        {"https://2130706433/", "number"},
        {"https://0x7f000001/", "number"},
        {"https://0x7f.1/", "number"},
        {"https://0177.0.0.1/", "number"},
        {"https://1.2.3.4.5/", "number"},
        {"https://256.1.1.1/", "number"},
        {"https://foo.0x/", "number"},
        {"https://%31%32%37.0.0.1/", "percent-encoded"},
        {"https://[fe80::1%25lo]/", "percent-encoded"},
        {"https://[::1/", "brackets"},
        {"https://::1/", "no host"},
        {"https://[v1.x]/", "brackets"},
        {"https://m\xc3\xbcnchen.example/", "IDNA"},
        {"https://h/\xc3\xbc", "ASCII"},
        {"https://h/%zz", "3986"},
        {"https://h/a|b", "3986"},
        {"https://-h.example/", "no valid name"},
        {"https://a..b/", "no valid name"},
        {"https://" + std::string(64, 'a') + ".example/", "no valid name"},
        {"https://h,example/", "no valid name"},
    };
    for (const auto& [text, fault] : rows) {
        CAPTURE(text.substr(0, 60));
        const auto u = parse_url(text);
        REQUIRE_FALSE(u.has_value());
        CHECK_THAT(u.error().text, Catch::Matchers::Contains(fault));
    }
}

TEST_CASE("no error repeats userinfo or query [B46]", "[wire][url]") {
    for (const auto* text :
         {"https://u:k3y@h/", "https://h/a b?token=k3y", "https://h:0/?t=k3y", "https://0x7f.1/?k3y", "https://u:k3^y/w@h/db", "ftp://h/?k3y"}) {
        CAPTURE(text);
        const auto u = parse_url(text);
        REQUIRE_FALSE(u.has_value());
        CHECK(u.error().text.find("k3") == std::string::npos);
        CHECK(describe_url(text).find("k3") == std::string::npos);
    }
}

TEST_CASE("a described URL shows address and path only", "[wire][url]") {
    CHECK(describe_url("https://H.example/p/q?token=1#f") == "https://h.example:443/p/q");
    CHECK(describe_url("http://[::1]:80?x") == "http://[::1]:80/");
    CHECK(describe_url("no url at all?x") == "no url at all");
}

TEST_CASE("http is for those who allow it", "[wire][url]") {
    const auto plain = parse_url("http://h.example/").value();
    CHECK_FALSE(check_scheme(plain, false).has_value());
    CHECK(check_scheme(plain, true).has_value());
    CHECK(check_scheme(parse_url("https://h.example/").value(), false).has_value());
}
