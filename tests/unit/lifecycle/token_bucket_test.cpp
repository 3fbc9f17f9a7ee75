#include "lifecycle/token_bucket.hpp"

#include "support/catch.hpp"

using outboxd::base::boot_time;
using outboxd::lifecycle::token_bucket;
using namespace std::chrono_literals;

namespace {
constexpr boot_time beginning{1h};
}

TEST_CASE("a bucket without a rate gives every token") {
    token_bucket bucket;
    for (int i = 0; i < 1000; ++i) REQUIRE(bucket.try_take(beginning));
    CHECK(bucket.next(beginning) == beginning);
}

TEST_CASE("a bucket gives its burst at once and then its rate") {
    token_bucket bucket;
    bucket.configure(10.0, 3.0, beginning);
    for (int i = 0; i < 3; ++i) REQUIRE(bucket.try_take(beginning));
    CHECK_FALSE(bucket.try_take(beginning));
    CHECK(bucket.next(beginning) == beginning + 100ms);
    CHECK_FALSE(bucket.try_take(beginning + 99ms));
    CHECK(bucket.try_take(beginning + 100ms));
}

TEST_CASE("a bucket followed for 30 seconds keeps its rate within five per cent") {
    for (const double rate : {1.0, 7.0, 100.0, 333.0}) {
        token_bucket bucket;
        bucket.configure(rate, 1.0, beginning);
        int taken = 0;
        for (auto t = beginning; t < beginning + 30s; t = std::max(bucket.next(t), t + 1us)) taken += bucket.try_take(t) ? 1 : 0;
        CAPTURE(rate);
        CHECK(taken >= static_cast<int>(rate * 30 * 0.95));
        CHECK(taken <= static_cast<int>(rate * 30 * 1.05) + 1);
    }
}

TEST_CASE("a bucket whose rate changes keeps no more than the new burst") {
    token_bucket bucket;
    bucket.configure(100.0, 50.0, beginning);
    bucket.configure(10.0, 2.0, beginning);
    int taken = 0;
    while (bucket.try_take(beginning)) ++taken;
    CHECK(taken == 2);
}

TEST_CASE("a token given back can be taken again") {
    token_bucket bucket;
    bucket.configure(1.0, 1.0, beginning);
    REQUIRE(bucket.try_take(beginning));
    bucket.give_back();
    CHECK(bucket.try_take(beginning));
}

TEST_CASE("a bucket that begins with one token saves up its burst only while nobody takes") {
    token_bucket bucket;
    bucket.configure(10.0, 5.0, beginning, 1.0);
    CHECK(bucket.try_take(beginning));
    CHECK_FALSE(bucket.try_take(beginning));
    int taken = 0;
    while (bucket.try_take(beginning + 10s)) ++taken;
    CHECK(taken == 5);
}

TEST_CASE("shares of one rate add up to it when relays come and go") {
    // Three relays from second 10 to 20, one before and after; everybody hears of the change at once.
    token_bucket buckets[3];
    const double rate = 60.0;
    int taken = 0;
    for (int ms = 0; ms < 30'000; ms += 5) {
        const auto now = beginning + std::chrono::milliseconds{ms};
        const int live = ms >= 10'000 && ms < 20'000 ? 3 : 1;
        for (int i = 0; i < live; ++i) {
            if (ms % 10'000 == 0) buckets[i].configure(rate / live, rate / 2 / live, now, 1.0);
            while (buckets[i].try_take(now)) ++taken;
        }
    }
    CHECK(taken >= static_cast<int>(rate * 30 * 0.95));
    CHECK(taken <= static_cast<int>(rate * 30 * 1.05));
}

TEST_CASE("at the moment that a bucket names a token is there") {
    for (const double rate : {0.3, 3.0, 5.0, 7.0, 1000.0 / 3, 1e6}) {
        token_bucket bucket;
        bucket.configure(rate, 1.0, beginning);
        auto now = beginning;
        for (int i = 0; i < 2000; ++i) {
            now += std::chrono::nanoseconds{(i * 7919) % 1'000'003};
            while (bucket.try_take(now)) {
            }
            const auto next = bucket.next(now);
            REQUIRE(next > now);
            now = next;
            REQUIRE(bucket.try_take(now));
        }
    }
}
