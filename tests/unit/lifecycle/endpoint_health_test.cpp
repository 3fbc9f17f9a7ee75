// Role: when a failing or recovering endpoint is news, and when it is given up.
// Promise: pure, no clock of its own.
#include "lifecycle/endpoint_health.hpp"

#include "support/catch.hpp"

using namespace std::chrono_literals;
using outboxd::base::boot_time;
using outboxd::base::milliseconds;
using outboxd::lifecycle::endpoint_health;
using news = outboxd::lifecycle::endpoint_health::news;

namespace {

constexpr boot_time start{1000h};

struct row {
    const char* name;
    std::optional<boot_time> first_failure, last_success, written;  // success before failure where both are there
    boot_time now;
    std::optional<milliseconds> after;
    news expected;
};

}  // namespace

TEST_CASE("endpoint health: what is written, and when", "[endpoint_health]") {
    const std::vector<row> table{
        {"nothing seen", {}, {}, {}, start, 120h, news::none},
        {"nothing seen of one that fails elsewhere", {}, {}, start - 10h, start, 120h, news::none},
        {"a hiccup", start, {}, {}, start + 9999ms, 120h, news::none},
        {"failing for ten seconds", start, {}, {}, start + 10s, 120h, news::failing},
        {"failing and written", start, {}, start, start + 119h, 120h, news::none},
        {"failing for as long as the rule allows", start, {}, start, start + 120h, 120h, news::give_up},
        {"the same with the rule off", start, {}, start, start + 9999h, std::nullopt, news::none},
        {"written long ago, but this relay has seen no failure", {}, {}, start - 999h, start, 120h, news::none},
        {"a success after the written moment", {}, start + 1h, start, start + 2h, 120h, news::recovered},
        {"a success before the written moment: another relay fails now", {}, start, start + 1h, start + 2h, 120h, news::none},
        {"the first success ever", {}, start, {}, start + 5s, 120h, news::delivers},
        {"a success, then failures", start + 1h, start, {}, start + 2h, 120h, news::failing},
    };
    for (const auto& r : table) {
        CAPTURE(r.name);
        endpoint_health health;
        if (r.last_success) health.success(*r.last_success);
        if (r.first_failure) {
            health.failure(*r.first_failure);
            health.failure(*r.first_failure + 1s);
        }
        CHECK(health.look(r.now, r.written, r.after) == r.expected);
    }
}

TEST_CASE("endpoint health: an endpoint that simply works is written once an hour", "[endpoint_health]") {
    endpoint_health health;
    health.success(start);
    CHECK(health.look(start, {}, 120h) == news::delivers);
    health.noted();
    health.success(start + 59min);
    CHECK(health.look(start + 59min, {}, 120h) == news::none);
    health.success(start + 60min);
    CHECK(health.look(start + 60min, {}, 120h) == news::delivers);
}

TEST_CASE("endpoint health: what was seen before it was enabled again says nothing", "[endpoint_health]") {
    endpoint_health health;
    health.failure(start);
    health.forget();
    CHECK(health.look(start + 200h, {}, 120h) == news::none);
    health.failure(start + 200h);
    CHECK(health.failing_since() == start + 200h);
}
