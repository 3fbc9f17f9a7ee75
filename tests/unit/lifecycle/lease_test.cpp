#include "lifecycle/lease.hpp"

#include "support/catch.hpp"

using outboxd::base::boot_time;
using outboxd::lifecycle::lease;
using namespace std::chrono_literals;

TEST_CASE("a lease that was never confirmed covers nothing") {
    const lease l(60s);
    CHECK_FALSE(l.alive(boot_time{1h}));
    CHECK_FALSE(l.covers(boot_time{1h}, 0ms));
}

TEST_CASE("[B12] a lease covers a request only when it outlasts its deadline and a margin") {
    lease l(60s);
    const boot_time sent{1h};
    l.renewed(sent);
    CHECK(l.covers(sent, 15s));
    CHECK(l.covers(sent + 43s, 15s));
    CHECK_FALSE(l.covers(sent + 44s, 15s));
    CHECK(l.alive(sent + 59s));
    CHECK_FALSE(l.alive(sent + 60s));
}

TEST_CASE("[B02] a process that slept past its lease starts nothing when it wakes") {
    lease l(5s);
    l.renewed(boot_time{1h});
    CHECK_FALSE(l.covers(boot_time{1h} + 3min, 1s));
    l.renewed(boot_time{1h} + 3min);
    CHECK(l.covers(boot_time{1h} + 3min, 1s));
    l.lost();
    CHECK_FALSE(l.alive(boot_time{1h} + 3min));
}
