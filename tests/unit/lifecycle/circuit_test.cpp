// Role: the circuit's switch, event by event.
// Promise: pure, no clock of its own.
#include "lifecycle/circuit.hpp"

#include <chrono>

#include "support/catch.hpp"

using namespace outboxd::lifecycle;
using namespace std::chrono_literals;
using outboxd::base::boot_time;

namespace {

struct step_row {
    circuit_event event;
    bool probe;
    circuit_action action;
    circuit_state state;
    int failures;
};

void play(circuit& c, const circuit_settings& settings, const std::vector<step_row>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(i);
        CHECK(c.step(settings, rows[i].event, rows[i].probe) == rows[i].action);
        CHECK(c.state() == rows[i].state);
        CHECK(c.consecutive_failures() == rows[i].failures);
    }
}

constexpr auto ok = circuit_event::success;
constexpr auto fault = circuit_event::fault;
constexpr auto neutral = circuit_event::neutral;
constexpr auto none = circuit_action::none;
constexpr auto closed = circuit_state::closed;
constexpr auto open = circuit_state::open;

}  // namespace

TEST_CASE("circuit: consecutive failures trip it once, a success in between starts the count again", "[circuit][B52]") {
    circuit_settings settings;
    settings.failures = 3;
    circuit c;
    play(c, settings,
         {{fault, false, none, closed, 1},
          {fault, false, none, closed, 2},
          {ok, false, none, closed, 0},
          {fault, false, none, closed, 1},
          {neutral, false, none, closed, 1},
          {fault, false, none, closed, 2},
          {fault, false, circuit_action::trip, open, 3},
          {fault, false, none, open, 3},   // was on the wire when it opened
          {ok, false, none, open, 3}});
    CHECK_FALSE(c.admits());
    CHECK_FALSE(c.wants_probe(boot_time{} + 24h * 365));  // until the database has said when
}

TEST_CASE("circuit: zero failures turn it off", "[circuit]") {
    circuit_settings settings;
    settings.failures = 0;
    circuit c;
    for (int i = 0; i < 100; ++i) CHECK(c.step(settings, fault, false) == none);
    CHECK(c.admits());
}

TEST_CASE("circuit: what the database says decides on probes", "[circuit]") {
    const circuit_settings settings;
    const boot_time until = boot_time{} + 60s;
    circuit c;
    c.adopt(open, until);
    CHECK_FALSE(c.admits());
    CHECK(c.open_until() == until);
    CHECK_FALSE(c.wants_probe(until - 1ns));
    CHECK(c.wants_probe(until));
    CHECK(c.step(settings, neutral, true) == circuit_action::give_back);
    CHECK(c.step(settings, neutral, false) == none);
    CHECK(c.step(settings, fault, true) == circuit_action::report_fault);
    CHECK(c.step(settings, ok, true) == circuit_action::report_ok);
    c.adopt(circuit_state::half_open, until);
    CHECK_FALSE(c.admits());
    CHECK(c.wants_probe(boot_time{}));
    c.adopt(closed, until);
    CHECK(c.admits());
    CHECK_FALSE(c.wants_probe(until));
    CHECK(c.consecutive_failures() == 0);
}

TEST_CASE("circuit: hearing `closed` while closed keeps the count", "[circuit]") {
    circuit_settings settings;
    settings.failures = 2;
    circuit c;
    CHECK(c.step(settings, fault, false) == none);
    c.adopt(closed, {});
    CHECK(c.step(settings, fault, false) == circuit_action::trip);
}

TEST_CASE("circuit: a probe that ends after another relay closed it counts as an ordinary attempt", "[circuit]") {
    const circuit_settings settings;
    circuit c;
    CHECK(c.step(settings, fault, true) == none);
    CHECK(c.consecutive_failures() == 1);
}
