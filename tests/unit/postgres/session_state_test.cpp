#include "postgres/session_state.hpp"

#include "support/catch.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
using postgres::session_event;
using postgres::session_phase;
using postgres::session_state;

TEST_CASE("a session connects when it is wanted, and only then", "[postgres]") {
    session_state s;
    CHECK(s.phase() == session_phase::disconnected);
    CHECK(s.step(session_event::wanted, 0).connect);
    CHECK(s.phase() == session_phase::connecting);
    CHECK(!s.step(session_event::wanted, 0).connect);
    CHECK(!s.step(session_event::connected, 0).report_up);
    CHECK(s.phase() == session_phase::ready);
    CHECK(!s.step(session_event::wanted, 0).connect);
}

TEST_CASE("pauses double from 100 ms to 5 s, with half of each left to chance", "[postgres]") {
    for (const double random : {0.0, 0.5, 1.0}) {
        session_state s;
        std::vector<base::milliseconds> pauses;
        for (int i = 0; i < 9; ++i) {
            (void)s.step(session_event::wanted, random);
            pauses.push_back(s.step(session_event::connect_failed, random).pause);
            CHECK(s.phase() == session_phase::backing_off);
            CHECK(!s.step(session_event::wanted, random).connect);
            (void)s.step(session_event::pause_over, random);
        }
        const auto share = 0.5 + 0.5 * random;
        const std::vector<int> whole{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000};
        for (std::size_t i = 0; i < whole.size(); ++i) CHECK(pauses[i] == base::milliseconds{static_cast<int>(whole[i] * share)});
    }
}

TEST_CASE("one report when it goes down and one when it serves again, however often it flaps", "[postgres][B07]") {
    session_state s;
    int down = 0;
    int up = 0;
    for (int i = 0; i < 50; ++i) {  // a read-only server lets us in and refuses each statement
        (void)s.step(session_event::wanted, 0);
        up += s.step(session_event::connected, 0).report_up ? 1 : 0;
        const auto lost = s.step(session_event::lost, 0);
        down += lost.report_down ? 1 : 0;
        CHECK(lost.pause >= 50ms);
        (void)s.step(session_event::pause_over, 0);
    }
    CHECK(down == 1);
    CHECK(up == 0);
    (void)s.step(session_event::wanted, 0);
    (void)s.step(session_event::connected, 0);
    CHECK(s.step(session_event::served, 0).report_up);
    CHECK(!s.step(session_event::served, 0).report_up);
    CHECK(s.step(session_event::lost, 0).report_down);
}

TEST_CASE("a statement that was served takes the pause back to the shortest", "[postgres]") {
    session_state s;
    for (int i = 0; i < 9; ++i) {
        (void)s.step(session_event::wanted, 1);
        (void)s.step(session_event::connect_failed, 1);
        (void)s.step(session_event::pause_over, 1);
    }
    (void)s.step(session_event::wanted, 1);
    (void)s.step(session_event::connected, 1);
    (void)s.step(session_event::served, 1);
    CHECK(s.step(session_event::lost, 1).pause == 100ms);
}

TEST_CASE("events out of season change nothing", "[postgres]") {
    session_state s;
    for (const auto e : {session_event::connected, session_event::connect_failed, session_event::lost, session_event::pause_over}) {
        CHECK(s.step(e, 0).pause == 0ms);
        CHECK(s.phase() == session_phase::disconnected);
    }
    CHECK(s.failures() == 0);
}
