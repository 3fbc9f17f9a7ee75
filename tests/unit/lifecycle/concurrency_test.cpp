#include "lifecycle/concurrency.hpp"

#include "support/catch.hpp"

using outboxd::lifecycle::concurrency;
using namespace std::chrono_literals;

TEST_CASE("a window starts small and doubles per round of quick answers") {
    concurrency window;
    window.configure(64, true);
    CHECK(window.limit() == 8);
    for (int i = 0; i < 8; ++i) window.success(10ms, 15s);
    CHECK(window.limit() == 16);
    for (int i = 0; i < 200; ++i) window.success(10ms, 15s);
    CHECK(window.limit() == 64);
}

TEST_CASE("a window does not grow on slow answers") {
    concurrency window;
    window.configure(64, true);
    for (int i = 0; i < 100; ++i) window.success(4s, 15s);
    CHECK(window.limit() == 8);
}

TEST_CASE("a burst of trouble halves the window once, lasting trouble ends at one") {
    concurrency window;
    window.configure(64, true);
    for (int i = 0; i < 200; ++i) window.success(10ms, 15s);
    for (int i = 0; i < 10; ++i) window.trouble();
    CHECK(window.limit() == 32);
    for (int i = 0; i < 1000; ++i) window.trouble();
    CHECK(window.limit() == 1);
    SECTION("after which it grows by one per window of successes") {
        window.success(10ms, 15s);
        CHECK(window.limit() == 2);
        window.success(10ms, 15s);
        CHECK(window.limit() == 2);
    }
}

TEST_CASE("a lane that comes back from an outage starts with one request and grows fast") {
    concurrency window;
    window.configure(64, true);
    window.trouble();
    window.restart();
    CHECK(window.limit() == 1);
    for (int i = 0; i < 63; ++i) window.success(10ms, 15s);
    CHECK(window.limit() == 64);
}

TEST_CASE("a window that is not adaptive is its ceiling, and never above it") {
    concurrency window;
    window.configure(5, false);
    window.trouble();
    CHECK(window.limit() == 5);
    window.configure(3, true);
    CHECK(window.limit() <= 3);
}
