#include "wire/response_policy.hpp"

#include <chrono>

#include "support/catch.hpp"

using namespace outboxd::wire;
using namespace std::chrono_literals;
using outboxd::base::wall_time;

namespace {
const wall_time answered{std::chrono::sys_days{std::chrono::year{2026} / 11 / 30} + 19h + 3min + 47s};

verdict answer_of(int status, const response_rules& rules = default_response_rules()) {
    return judge(rules, {status, {}, {}, {}}, answered);
}
}  // namespace

TEST_CASE("the table of answers [B42] [B47]", "[wire][response]") {
    struct row {
        int status;
        outboxd::wire::meaning meaning;
        bool redirect, disables;
    };
    using enum outboxd::wire::meaning;
    const row rows[] = {
        {200, published, false, false}, {201, published, false, false}, {202, published, false, false}, {204, published, false, false},
        {206, published, false, false}, {226, published, false, false}, {299, published, false, false}, {300, retry, true, false},
        {301, retry, true, false},      {302, retry, true, false},      {303, retry, true, false},      {304, retry, true, false},
        {307, retry, true, false},      {308, retry, true, false},      {400, retry, false, false},     {401, retry, false, false},
        {404, retry, false, false},     {408, retry, false, false},     {409, retry, false, false},     {410, permanent, false, true},
        {413, retry, false, false},     {422, retry, false, false},     {425, retry, false, false},     {429, retry, false, false},
        {451, retry, false, false},     {499, retry, false, false},     {500, retry, false, false},     {501, retry, false, false},
        {503, retry, false, false},     {599, retry, false, false},     {999, retry, false, false},     {101, retry, false, false},
        {0, retry, false, false},
    };
    for (const auto& r : rows) {
        CAPTURE(r.status);
        const auto v = answer_of(r.status);
        CHECK(v.meaning == r.meaning);
        CHECK(v.redirect == r.redirect);
        CHECK(v.disable_endpoint == r.disables);
        CHECK_FALSE(v.neutral_for_circuit);
        CHECK(v.text == (r.meaning == published ? "" : "HTTP " + std::to_string(r.status)));
    }
}

TEST_CASE("the endpoint's lists decide before the table", "[wire][response]") {
    auto rules = default_response_rules();
    rules.success = status_set::parse({"200", "409"}).value();
    rules.permanent = status_set::parse({"4xx", "500-502"}).value();
    rules.retry = status_set::parse({"404"}).value();
    const std::pair<int, meaning> rows[] = {{200, meaning::published}, {201, meaning::retry},     {409, meaning::published}, {400, meaning::permanent},
                                            {404, meaning::retry},     {501, meaning::permanent}, {503, meaning::retry}};
    for (const auto& [status, wanted] : rows) {
        CAPTURE(status);
        CHECK(answer_of(status, rules).meaning == wanted);
    }
    CHECK(answer_of(410, rules).disable_endpoint);
    CHECK_FALSE(answer_of(400, rules).disable_endpoint);
    rules.permanent = {};
    CHECK(answer_of(410, rules).meaning == meaning::retry);
    CHECK_FALSE(answer_of(410, rules).disable_endpoint);
}

TEST_CASE("status lists are codes, classes and ranges", "[wire][response]") {
    const auto set = status_set::parse({"2xx", "409", "500-503"}).value();
    CHECK(set.contains(200));
    CHECK(set.contains(299));
    CHECK_FALSE(set.contains(300));
    CHECK(set.contains(409));
    CHECK(set.contains(503));
    CHECK_FALSE(set.contains(504));
    for (const auto* bad : {"", "2x", "20", "2000", "abc", "xx2", "0xx", "503-500", "500-", "-500", "099", "200 ", "2xx-3xx"}) {
        CAPTURE(bad);
        CHECK_FALSE(status_set::parse({bad}).has_value());
    }
}

TEST_CASE("a redirect names where it points to, without secrets or control characters [B42]", "[wire][response]") {
    const std::pair<const char*, const char*> rows[] = {
        {"https://other.example/login?token=k3y#f", "HTTP 302 to https://other.example:443/login"},
        {"/login?next=k3y", "HTTP 302 to /login"},
        {"/a\r\nX: y", "HTTP 302 to /a\\x0d\\x0aX: y"},
        {"https://u:k3y@h/", "HTTP 302 to (invalid URL, not shown: it may hold a password)"},
        {"", "HTTP 302"},
    };
    for (const auto& [location, text] : rows) CHECK(judge(default_response_rules(), {302, {}, {}, location}, answered).text == text);
}

TEST_CASE("delivery headers of the answer hold only where they are honoured", "[wire][response]") {
    auto rules = default_response_rules();
    CHECK(judge(rules, {500, {}, "disable", {}}, answered).meaning == meaning::retry);
    rules.honour_delivery_header = true;
    struct row {
        int status;
        const char* value;
        outboxd::wire::meaning meaning;
        bool disables;
    };
    const row rows[] = {{500, "disable", meaning::permanent, true},
                        {500, "Abort", meaning::permanent, false},
                        {500, " abort-message ", meaning::permanent, false},
                        {200, "disable", meaning::published, true},
                        {200, "abort", meaning::published, false},
                        {500, "other", meaning::retry, false},
                        {500, "", meaning::retry, false}};
    for (const auto& r : rows) {
        CAPTURE(r.status, r.value);
        const auto v = judge(rules, {r.status, {}, r.value, {}}, answered);
        CHECK(v.meaning == r.meaning);
        CHECK(v.disable_endpoint == r.disables);
    }
}

TEST_CASE("Retry-After counts on 429 and 503 only [B50]", "[wire][response]") {
    for (const int status : {429, 503}) {
        const auto v = judge(default_response_rules(), {status, "7", {}, {}}, answered);
        CHECK(v.retry_after == 7s);
        CHECK(v.neutral_for_circuit);
        const auto garbage = judge(default_response_rules(), {status, "soon", {}, {}}, answered);
        CHECK_FALSE(garbage.retry_after.has_value());
        CHECK_FALSE(garbage.neutral_for_circuit);
    }
    for (const int status : {200, 301, 400, 410, 500}) {
        CAPTURE(status);
        const auto v = judge(default_response_rules(), {status, "7", {}, {}}, answered);
        CHECK_FALSE(v.retry_after.has_value());
        CHECK_FALSE(v.neutral_for_circuit);
    }
}

TEST_CASE("Retry-After in all its forms [B50]", "[wire][retry_after]") {
    const std::pair<const char*, std::optional<std::chrono::milliseconds>> rows[] = {
        {"7", 7s},
        {"0", 0s},
        {"007", 7s},
        {" 7 ", 7s},
        {"86400", 24h},
        {"86401", 24h},
        {"9999999999", 24h},
        {"99999999999999999999", 24h},
        {"-3", {}},
        {"+3", {}},
        {"1.5", {}},
        {"120junk", {}},
        {"", {}},
        {"  ", {}},
        {"soon", {}},
        {"7, 8", {}},
        {"0x10", {}},
        {"1e3", {}},
        {"Mon, 30 Nov 2026 19:03:57 GMT", 10s},
        {"Monday, 30-Nov-26 19:03:57 GMT", 10s},
        {"Mon Nov 30 19:03:57 2026", 10s},
        {"Tue Dec  1 19:03:47 2026", 24h},
        {"Mon, 30 Nov 2026 19:03:37 GMT", 0s},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0s},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 0s},
        {"Wed, 01 Jan 2400 00:00:00 GMT", 24h},
        {"Mon, 30 Nov 2026 19:03:57", {}},
        {"Mon, 30 Nov 2026 19:03:57 CET", {}},
        {"Mon, 30 Nov 2026 25:03:57 GMT", {}},
        {"Mon, 31 Nov 2026 19:03:57 GMT", {}},
        {"Xyz, 30 Nov 2026 19:03:57 GMT", {}},
        {"Mon, 30 Nov 2026 19:03:57 GMTx", {}},
        {"30 Nov 2026 19:03:57 GMT", {}},
        {"2026-11-30T19:03:57Z", {}},
    };
    for (const auto& [value, wanted] : rows) {
        CAPTURE(value);
        CHECK(parse_retry_after(value, answered) == wanted);
    }
}

TEST_CASE("a two-digit year more than fifty years ahead is of the last century", "[wire][retry_after]") {
    CHECK(parse_retry_after("Wednesday, 30-Nov-76 19:03:47 GMT", answered) == 24h);  // 2076
    CHECK(parse_retry_after("Wednesday, 30-Nov-77 19:03:47 GMT", answered) == 0s);   // 1977
}

TEST_CASE("a date is never a fraction of a second early", "[wire][retry_after]") {
    CHECK(parse_retry_after("Mon, 30 Nov 2026 19:03:48 GMT", answered + 999500us) == 1ms);
}
