#include "base/encoding.hpp"

#include "support/catch.hpp"

using namespace outboxd::base;
using namespace std::string_literals;

TEST_CASE("base64 of RFC 4648 section 10 encodes and decodes", "[base][encoding]") {
    const std::pair<std::string, std::string> rows[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xfb\xff\xfe"s, "+//+"}};
    for (const auto& [plain, text] : rows) {
        CAPTURE(text);
        CHECK(base64_encode(plain) == text);
        CHECK(base64_decode(text).value() == plain);
    }
}

TEST_CASE("base64 that is not exact is refused whole [B44]", "[base][encoding]") {
    for (const auto* text : {"Zg", "Zg=", "Z", "Zg==\n", " Zg==", "Zg==Zg==", "Zm9v-_8=", "!!!!", "====", "Zg=a", "Zm9vY"}) {
        CAPTURE(text);
        CHECK_FALSE(base64_decode(text).has_value());
    }
}

TEST_CASE("base64url is written without padding and read with or without", "[base][encoding]") {
    CHECK(base64url_encode("\xfb\xff\xfe"s) == "-__-");
    CHECK(base64url_encode("f") == "Zg");
    CHECK(base64url_decode("Zg").value() == "f");
    CHECK(base64url_decode("Zg==").value() == "f");
    for (const auto* text : {"Zg=", "Z", "+//+", "Zg==="}) {
        CAPTURE(text);
        CHECK_FALSE(base64url_decode(text).has_value());
    }
}

TEST_CASE("hex is lower case", "[base][encoding]") {
    CHECK(hex_encode("\x00\x7f\xff"s) == "007fff");
}

TEST_CASE("UTF-8 is judged by the well-formed table", "[base][encoding]") {
    for (const auto& good : {""s, "abc"s, "\x00"s, "\xc2\x80"s, "\xe0\xa0\x80"s, "\xed\x9f\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s})
        CHECK(is_valid_utf8(good));
    for (const auto& bad : {"\x80"s, "\xc1\x81"s, "\xe0\x9f\xbf"s, "\xed\xa0\x80"s, "\xf0\x8f\xbf\xbf"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s,
                            "\xe2\x82"s, "\xe2\x28\xac"s}) {
        CAPTURE(hex_encode(bad));
        CHECK_FALSE(is_valid_utf8(bad));
    }
}

TEST_CASE("printable and storable make any bytes safe [B72]", "[base][encoding]") {
    struct row {
        std::string bytes, printed, stored;
    };
    const row rows[] = {
        {"plain", "plain", "plain"},
        {"\x00"s, "\\x00", "\\x00"},
        {"a\r\nb\tc", "a\\x0d\\x0ab\\x09c", "a\r\nb\tc"},
        {"\x1b[31m", "\\x1b[31m", "\\x1b[31m"},
        {"\x7f\xc2\x85"s, "\\x7f\\x85", "\\x7f\\x85"},
        {"\xff\xfe"s, "\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"caf\xe9!"s, "caf\xef\xbf\xbd!", "caf\xef\xbf\xbd!"},
        {"\xe2\x80\xa8\xe2\x80\xae"s, "\\u2028\\u202e", "\xe2\x80\xa8\xe2\x80\xae"},
        {"\\u0000", "\\u0000", "\\u0000"},
        {"Euro \xe2\x82\xac", "Euro \xe2\x82\xac", "Euro \xe2\x82\xac"},
    };
    for (const auto& r : rows) {
        CAPTURE(hex_encode(r.bytes));
        CHECK(printable(r.bytes, 100) == r.printed);
        CHECK(storable(r.bytes, 100) == r.stored);
        CHECK(is_valid_utf8(printable(r.bytes, 100)));
    }
}

TEST_CASE("a text is cut on a character border and never inside an escape [B72]", "[base][encoding]") {
    CHECK(printable("ab\xe2\x82\xac", 4) == "ab");
    CHECK(printable("ab\xe2\x82\xac", 5) == "ab\xe2\x82\xac");
    CHECK(printable("ab\x01"s, 5) == "ab");
    // The sender cut the excerpt itself: the half character goes, it is not reported as a bad byte.
    CHECK(storable("abc\xe2\x82"s, 5) == "abc");
    // A body that is really wrong at its end says so.
    CHECK(storable("abc\xe2\x82"s, 50) == "abc\xef\xbf\xbd\xef\xbf\xbd");
    CHECK(printable("abc", 0).empty());
}

TEST_CASE("json_escape yields the inside of a JSON string", "[base][encoding]") {
    CHECK(json_escape("a\"b\\c\n\r\t\x01\x1f/\xc3\xa9"s) == "a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f/\xc3\xa9");
    CHECK(json_escape("\xff"s) == "\xef\xbf\xbd");
}

TEST_CASE("ASCII case is folded, other bytes are not", "[base][encoding]") {
    CHECK(iequals("Content-TYPE", "content-type"));
    CHECK_FALSE(iequals("a", "ab"));
    CHECK_FALSE(iequals("@", "`"));
    CHECK(to_lower_ascii("AZ@[\xc3\x84") == "az@[\xc3\x84");
}

TEST_CASE("CloudEvents header values are percent-encoded by the HTTP binding", "[base][encoding]") {
    CHECK(percent_encode_header("Euro \xe2\x82\xac \xf0\x9f\x98\x80") == "Euro%20%E2%82%AC%20%F0%9F%98%80");
    CHECK(percent_encode_header("a\"b%c~!") == "a%22b%25c~!");
    CHECK(percent_encode_header("\r\n\x7f") == "%0D%0A%7F");
}
