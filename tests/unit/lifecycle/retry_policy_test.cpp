// Role: the schedules of the named presets and the bounds of every pause.
// Promise: pure, no clock; the random number is an argument.
#include "lifecycle/retry_policy.hpp"

#include <chrono>
#include <cmath>
#include <numeric>

#include "support/catch.hpp"

using namespace outboxd::lifecycle;
using namespace std::chrono_literals;
using outboxd::base::milliseconds;

namespace {

constexpr double middle = 0.5;  // the random number that leaves a pause as it is

std::vector<milliseconds> pauses_of(const retry_policy& policy) {
    std::vector<milliseconds> pauses;
    for (int attempt = 1;; ++attempt) {
        const auto pause = next_pause(policy, attempt, 0, middle);
        if (!pause) return pauses;
        pauses.push_back(*pause);
    }
}

}  // namespace

TEST_CASE("retry preset: every named one, its exact schedule", "[retry]") {
    struct row {
        const char* name;
        std::vector<milliseconds> pauses;
        double jitter;
    };
    const std::vector<row> table{
        {"standard-webhooks", {5s, 5min, 30min, 2h, 5h, 10h, 10h}, 0.2},
        {"adcp", {1s, 2s}, 0.5},
        {"agent-zero", {10s, 20s, 40s, 80s, 160s, 320s, 640s, 1280s, 2560s, 1h, 1h}, 0.2},
        {"e2a", {1min, 5min, 15min, 1h, 4h, 8h, 16h}, 0.2},
    };
    REQUIRE(retry_preset_names().size() == table.size());
    for (const auto& expected : table) {
        CAPTURE(expected.name);
        const auto policy = retry_preset(expected.name);
        REQUIRE(policy);
        CHECK(pauses_of(*policy) == expected.pauses);
        CHECK(policy->max_attempts == static_cast<int>(expected.pauses.size()) + 1);
        CHECK(policy->jitter == expected.jitter);
    }
    const auto e2a = pauses_of(*retry_preset("e2a"));
    CHECK(std::accumulate(e2a.begin(), e2a.end(), milliseconds{0}) == 29h + 21min);
    CHECK_FALSE(retry_preset("e2A"));
    CHECK_FALSE(retry_preset(""));
}

TEST_CASE("next pause: jitter stays within its bounds at both ends of the random number", "[retry]") {
    for (const auto name : retry_preset_names()) {
        const auto policy = *retry_preset(name);
        for (int attempt = 1; attempt < policy.max_attempts; ++attempt) {
            CAPTURE(name, attempt);
            const auto plain = static_cast<double>(next_pause(policy, attempt, 0, middle)->count());
            const auto low = static_cast<double>(next_pause(policy, attempt, 0, 0.0)->count());
            const auto high = static_cast<double>(next_pause(policy, attempt, 0, std::nextafter(1.0, 0.0))->count());
            CHECK(low == std::round(plain * (1 - policy.jitter)));
            CHECK(high == std::round(plain * (1 + policy.jitter)));
        }
    }
}

TEST_CASE("next pause: high attempt numbers do not overflow", "[retry]") {
    auto policy = *retry_preset("agent-zero");
    policy.max_attempts = 100'000;
    for (const int attempt : {60, 64, 1100, 99'999}) {
        CAPTURE(attempt);
        CHECK(next_pause(policy, attempt, 0, middle) == milliseconds{1h});
    }
    policy.max = 0ms;  // no cap of its own: the general one of 30 days
    CHECK(next_pause(policy, 60, 0, middle) == milliseconds{24h * 30});
    CHECK(next_pause(policy, 60, 0, 0.999) == milliseconds{24h * 30});
    policy.first = 0ms;
    CHECK(next_pause(policy, 99'999, 0, middle) == milliseconds{0});
}

TEST_CASE("next pause: attempts are used up by the policy's limit or the event's own", "[retry]") {
    const auto policy = *retry_preset("standard-webhooks");
    CHECK(next_pause(policy, 7, 0, middle) == milliseconds{10h});
    CHECK_FALSE(next_pause(policy, 8, 0, middle));
    CHECK_FALSE(next_pause(policy, 1, 1, middle));
    CHECK_FALSE(next_pause(policy, 3, 3, middle));
    CHECK(next_pause(policy, 2, 3, middle) == milliseconds{5min});
    // Past the end of the schedule its last pause repeats.
    CHECK(next_pause(policy, 11, 12, middle) == milliseconds{10h});
    CHECK_FALSE(next_pause(policy, 12, 12, middle));
    // Nonsense in, sane value out.
    CHECK(next_pause(policy, 0, 0, middle) == milliseconds{5s});
    CHECK(next_pause(policy, -5, 0, -3.0) == milliseconds{4s});
}

TEST_CASE("retry hint: the later of schedule and hint, clamped to a day", "[retry][B50]") {
    CHECK(with_hint(5s, std::nullopt) == milliseconds{5s});
    CHECK(with_hint(5s, milliseconds{7s}) == milliseconds{7s});
    CHECK(with_hint(5min, milliseconds{7s}) == milliseconds{5min});
    CHECK(with_hint(5s, milliseconds{24h * 365}) == milliseconds{24h});
    CHECK(with_hint(30h, milliseconds{24h * 365}) == milliseconds{30h});
    CHECK(with_hint(5s, milliseconds{-1}) == milliseconds{5s});
}
