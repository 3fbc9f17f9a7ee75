#include "wire/headers.hpp"

#include "support/catch.hpp"

using namespace outboxd::wire;
using namespace std::string_literals;

TEST_CASE("a header of others must be valid HTTP and must not replace ours [B34]", "[wire][headers]") {
    struct row {
        std::string name, value;
        bool accepted;
    };
    const row rows[] = {
        {"X-A", "b", true},
        {"Authorization", "Bearer x", true},
        {"Content-Encoding", "gzip", true},
        {"x-latin", "caf\xe9", true},
        {"x-empty", "", true},
        {"x-tab", "a\tb", true},
        {"x-long", std::string(8192, 'v'), true},
        {"x-long", std::string(8193, 'v'), false},
        {std::string(128, 'n'), "v", true},
        {std::string(129, 'n'), "v", false},
        {"", "v", false},
        {"X-A:", "v", false},
        {"X A", "v", false},
        {"X-\xc3\xbc", "v", false},
        {"X-A\r\nX-B", "v", false},
        {"x", "a\r\nX-Injected: 1", false},
        {"x", "a\nb", false},
        {"x", "a\0b"s, false},
        {"x", "a\x7f", false},
        {"x", "\x1b[0m", false},
        {"content-type", "x/y", false},
        {"CONTENT-LENGTH", "1", false},
        {"Host", "evil", false},
        {"Transfer-Encoding", "chunked", false},
        {"Connection", "close", false},
        {"Keep-Alive", "x", false},
        {"TE", "trailers", false},
        {"Trailer", "x", false},
        {"Upgrade", "h2c", false},
        {"Proxy-Authorization", "x", false},
        {"Expect", "100-continue", false},
        {"Webhook-Signature", "x", false},
        {"webhook-id", "x", false},
        {"WEBHOOK-TIMESTAMP", "1", false},
        {"Idempotency-Key", "x", false},
        {"outbox-event-type", "x", false},
        {"Outbox-Attempt", "9", false},
        {"Outbox-Sequence", "9", false},
        {"User-Agent", "x", false},
        {"traceparent", "x", false},
        {"Signature", "x", false},
        {"X-Hub-Signature-256", "x", false},
        {"ce-id", "x", false},
    };
    for (const auto& r : rows) {
        CAPTURE(r.name, r.value.substr(0, 40));
        CHECK(check_own_header(r.name, r.value).has_value() == r.accepted);
    }
}

TEST_CASE("the error of a header shows its name safely and never its value", "[wire][headers]") {
    const auto fault = check_own_header("X-A\r\n", "secret-value").error().text;
    CHECK_THAT(fault, Catch::Matchers::Contains("X-A\\x0d\\x0a"));
    CHECK(fault.find("secret") == std::string::npos);
}

TEST_CASE("headers together are limited in number, size and names [B34]", "[wire][headers]") {
    header_list many;
    for (int i = 0; i < 64; ++i) many.emplace_back("x-" + std::to_string(i), "v");
    CHECK(check_own_headers(many).has_value());
    many.emplace_back("x-64", "v");
    CHECK_FALSE(check_own_headers(many).has_value());
    CHECK_FALSE(check_own_headers({{"x-a", "1"}, {"X-A", "2"}}).has_value());
    CHECK(check_own_headers({{"a", std::string(8000, 'v')}, {"b", std::string(8000, 'v')}}).has_value());
    CHECK_FALSE(check_own_headers({{"a", std::string(8000, 'v')}, {"b", std::string(8000, 'v')}, {"c", std::string(400, 'v')}}).has_value());
}

TEST_CASE("an event's headers are an object of strings [B10] [B34]", "[wire][headers]") {
    const auto good = parse_event_headers(R"({"X-A": " b ", "x-b": "\u00e9\"c"})").value();
    CHECK(good == header_list{{"X-A", "b"}, {"x-b", "\xc3\xa9\"c"}});
    CHECK(parse_event_headers("{}").value().empty());
    std::string crowd = "{";
    for (int i = 0; i < 500; ++i) crowd += (i != 0 ? ",\"x-" : "\"x-") + std::to_string(i) + "\":\"v\"";
    crowd += "}";
    const std::string bad[] = {"[]",
                               "[\"a\"]",
                               "null",
                               "\"x\"",
                               "1",
                               "",
                               "{",
                               "{\"a\":1}",
                               "{\"a\":null}",
                               "{\"a\":[\"b\"]}",
                               "{\"a\":{}}",
                               R"({"a":"x","A":"y"})",
                               R"({"x":"a\r\nX-Injected: 1"})",
                               R"({"x":"\u0000"})",
                               R"({"Host":"evil"})",
                               R"({"":"x"})",
                               crowd,
                               std::string(5000, '['),
                               "{\"x\":\"\xff\"}"};
    for (const auto& text : bad) {
        CAPTURE(text.substr(0, 60));
        CHECK_FALSE(parse_event_headers(text).has_value());
    }
}

TEST_CASE("a content type is a media type", "[wire][headers]") {
    for (const auto* good :
         {"application/json", "text/plain; charset=utf-8", "text/plain;charset=\"utf-8\"", "application/vnd.api+json", "a/b ; c=d ; e=\"f\\\"g\"", "a/b;"}) {
        CAPTURE(good);
        CHECK(check_content_type(good).has_value());
    }
    for (const auto& bad :
         {""s, "json"s, "/json"s, "a/"s, "a/b c"s, "a/b;c"s, "a/b;c="s, "a/b;c=\"d"s, "a/b\r\nX: y"s, "a/b, c/d"s, "a/" + std::string(300, 'b')}) {
        CAPTURE(bad);
        CHECK_FALSE(check_content_type(bad).has_value());
    }
}

TEST_CASE("traceparent follows W3C Trace Context", "[wire][headers]") {
    const auto good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"s;
    CHECK(check_traceparent(good).has_value());
    CHECK(check_traceparent("01" + good.substr(2) + "-extra").has_value());
    const std::string bad[] = {"",
                               "00",
                               good + "-x",
                               good.substr(0, 54),
                               "ff" + good.substr(2),
                               "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                               "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                               "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                               "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                               "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
                               "01" + good.substr(2) + "x",
                               "01" + good.substr(2) + "-a\r\nb"};
    for (const auto& text : bad) {
        CAPTURE(text);
        CHECK_FALSE(check_traceparent(text).has_value());
    }
}

TEST_CASE("tracestate follows W3C Trace Context", "[wire][headers]") {
    for (const auto* good : {"a=b", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "t@v=1 , b=2", "a=b,,c=d"}) CHECK(check_tracestate(good).has_value());
    std::string crowd = "k=v";
    for (int i = 0; i < 32; ++i) crowd += ",k" + std::to_string(i) + "=v";
    for (const auto& bad : {"a"s, "A=b"s, "a=b=c"s, "a=\r\n"s, "a="s, crowd}) {
        CAPTURE(bad);
        CHECK_FALSE(check_tracestate(bad).has_value());
    }
}
