#include "base/time.hpp"

#include "support/catch.hpp"

using namespace outboxd::base;

TEST_CASE("a duration is a whole number and one unit", "[base][time]") {
    const std::pair<const char*, std::int64_t> good[] = {{"250ms", 250},      {"5s", 5000}, {"10m", 600'000}, {"2h", 7'200'000},
                                                         {"7d", 604'800'000}, {"0s", 0},    {"0d", 0},        {"007s", 7000}};
    for (const auto& [text, ms] : good) {
        CAPTURE(text);
        CHECK(parse_duration(text).value().count() == ms);
    }
    for (const auto* text :
         {"", "5", "s", "5 s", " 5s", "-5s", "+5s", "1.5s", "5S", "5sec", "5s5s", "5us", "99999999999999999999s", "9223372036854775807d", "0x5s"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_duration(text).has_value());
    }
}

TEST_CASE("a formatted duration reads back", "[base][time]") {
    const std::pair<std::int64_t, const char*> rows[] = {{0, "0s"},           {1500, "1500ms"},          {5000, "5s"}, {90'000, "90s"}, {7'200'000, "2h"},
                                                         {604'800'000, "7d"}, {86'400'001, "86400001ms"}};
    for (const auto& [ms, text] : rows) {
        CHECK(format_duration(milliseconds{ms}) == text);
        CHECK(parse_duration(text).value().count() == ms);
    }
}

TEST_CASE("a duration for people has two units at most", "[base][time]") {
    const std::pair<std::int64_t, const char*> rows[] = {{0, "0s"},      {850, "850ms"},       {12'037, "12s"},        {65'000, "1m 5s"},
                                                         {60'000, "1m"}, {7'500'000, "2h 5m"}, {273'600'000, "3d 4h"}, {86'400'000 + 59'000, "1d"},
                                                         {-5000, "-5s"}};
    for (const auto& [ms, text] : rows) CHECK(describe_duration(milliseconds{ms}) == text);
}

TEST_CASE("RFC 3339 times are written in UTC with milliseconds", "[base][time]") {
    CHECK(format_rfc3339(wall_time{microseconds{0}}) == "1970-01-01T00:00:00.000Z");
    CHECK(format_rfc3339(wall_time{microseconds{1'796'065'427'120'999}}) == "2026-11-30T19:03:47.120Z");
    CHECK(format_rfc3339(wall_time{microseconds{-1}}) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("RFC 3339 times are read with any offset", "[base][time]") {
    const std::pair<const char*, const char*> good[] = {
        {"2026-11-30T19:03:47.120Z", "2026-11-30T19:03:47.120Z"},  {"2026-11-30t20:03:47.1209999999+01:00", "2026-11-30T19:03:47.120Z"},
        {"2026-11-30 13:33:47-05:30", "2026-11-30T19:03:47.000Z"}, {"2024-02-29T00:00:00z", "2024-02-29T00:00:00.000Z"},
        {"2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"},      {"2000-01-01T00:00:00+23:59", "1999-12-31T00:01:00.000Z"}};
    for (const auto& [text, utc] : good) {
        CAPTURE(text);
        CHECK(format_rfc3339(parse_rfc3339(text).value()) == utc);
    }
    for (const auto* text : {"", "2026-11-30", "2026-11-30T19:03:47", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-30T24:00:00Z",
                             "2026-11-30T19:60:00Z", "2026-11-30T19:03:61Z", "2026-11-30T19:03:47.Z", "2026-11-30T19:03:47+0100", "2026-11-30T19:03:47+24:00",
                             "2026-11-30T19:03:47Zx", "26-11-30T19:03:47Z", "2026-11-30T19:03:47+1:00"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_rfc3339(text).has_value());
    }
}

TEST_CASE("the boot clock goes forward", "[base][time]") {
    const auto before = boot_clock::now();
    CHECK(boot_clock::now() >= before);
}
