// The sweep: play the scenario once to count its effects, then again and again, each time with the next effect going wrong.
// OUTBOXD_TEST_EFFECT=N plays effect N alone, OUTBOXD_TEST_LOG=info shows what the relay says.
#include <cstdlib>

#include "stage.hpp"
#include "support/catch.hpp"
#include "telemetry/log.hpp"

using namespace outboxd;
using faults::fault;
using faults::stage;

namespace {

struct quiet_log {
    quiet_log() { telemetry::init_log(std::getenv("OUTBOXD_TEST_LOG") != nullptr ? std::getenv("OUTBOXD_TEST_LOG") : "off", "text"); }
};
const quiet_log quiet;

int effects_of(bool drains) {
    stage calm(fault::none, 0);
    calm.play(drains);
    INFO(calm.report());
    CHECK(calm.report().empty());
    return calm.effects();
}

void sweep(fault f, bool drains) {
    const int n = effects_of(drains);
    REQUIRE(n > 50);
    const char* const only = std::getenv("OUTBOXD_TEST_EFFECT");
    for (int i = only != nullptr ? std::atoi(only) : 1; i <= (only != nullptr ? std::atoi(only) : n); ++i) {
        stage s(f, i);
        s.play(drains);
        if (s.report().empty()) continue;
        FAIL_CHECK("effect " << i << " of " << n << " (" << s.hit() << ") meets " << faults::name_of(f) << ":\n" << s.report());
    }
}

}  // namespace

TEST_CASE("run keeps every promise when any one effect meets an error") { sweep(fault::error, false); }
TEST_CASE("run keeps every promise when any one effect is refused") { sweep(fault::refusal, false); }
TEST_CASE("run keeps every promise when any one effect outlasts its deadline") { sweep(fault::late, false); }
TEST_CASE("run keeps every promise when the reply of any one effect is lost") { sweep(fault::reply_lost, false); }
TEST_CASE("run keeps every promise when it is killed before any one effect") { sweep(fault::crash_before, false); }
TEST_CASE("run keeps every promise when it is killed after any one effect") { sweep(fault::crash_after, false); }
TEST_CASE("run keeps every promise when it is stopped at any one effect") { sweep(fault::stop, false); }
TEST_CASE("run keeps every promise when it is cut off at any one effect") { sweep(fault::abort, false); }
TEST_CASE("drain keeps every promise when any one effect meets an error") { sweep(fault::error, true); }
TEST_CASE("drain keeps every promise when any one effect outlasts its deadline") { sweep(fault::late, true); }
TEST_CASE("drain keeps every promise when the reply of any one effect is lost") { sweep(fault::reply_lost, true); }
TEST_CASE("drain keeps every promise when it is stopped at any one effect") { sweep(fault::stop, true); }
