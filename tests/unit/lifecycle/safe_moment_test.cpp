#include "lifecycle/safe_moment.hpp"

#include "support/catch.hpp"

using outboxd::base::wall_time;
using outboxd::lifecycle::safe_moment;
using namespace std::chrono_literals;

namespace {
wall_time at(std::chrono::milliseconds ms) { return wall_time{ms}; }
}

TEST_CASE("no moment is safe before a snapshot without running transactions or an older one that ended") {
    safe_moment safe;
    CHECK_FALSE(safe.value());
    safe.observe(at(100ms), 10, 12);
    CHECK_FALSE(safe.value());
}

TEST_CASE("a snapshot without running transactions makes its own moment safe") {
    safe_moment safe;
    safe.observe(at(100ms), 12, 12);
    CHECK(safe.value() == at(100ms));
}

TEST_CASE("[B01] a transaction that runs on holds the safe moment at its start") {
    safe_moment safe;
    safe.observe(at(100ms), 20, 20);
    // Transaction 20 begins and stays; others come and go.
    safe.observe(at(200ms), 20, 25);
    safe.observe(at(300ms), 20, 30);
    CHECK(safe.value() == at(100ms));
    SECTION("and lets go when it ends") {
        safe.observe(at(400ms), 30, 35);
        CHECK(safe.value() == at(300ms));
    }
}

TEST_CASE("the safe moment lags by one short transaction under steady writers") {
    safe_moment safe;
    std::uint64_t next = 100;
    for (int i = 0; i < 1000; ++i) {
        safe.observe(at(std::chrono::milliseconds{i * 5}), next, next + 3);
        next += 3;
    }
    REQUIRE(safe.value());
    CHECK(*safe.value() >= at(std::chrono::milliseconds{998 * 5}));
}

TEST_CASE("the list of samples stays bounded while a transaction hangs") {
    safe_moment safe;
    safe.observe(at(0ms), 5, 5);
    for (int i = 1; i < 100'000; ++i) safe.observe(at(std::chrono::milliseconds{i * 3}), 5, static_cast<std::uint64_t>(5 + i));
    CHECK(safe.value() == at(0ms));
    safe.observe(at(1h), 200'000, 200'000);
    CHECK(safe.value() == at(1h));
}
