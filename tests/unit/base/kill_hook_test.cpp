#include "base/kill_hook.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/catch.hpp"

using namespace outboxd;

namespace {

// The signal that ended a child which armed `text` and came past the step `times` times; 0 when it lived.
int signal_after(const char* text, base::kill_step step, int times) {
    const pid_t child = fork();
    if (child == 0) {
        if (base::arm_kill_hook(text)) _exit(1);
        for (int i = 0; i < times; ++i) base::kill_point(step);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("a kill hook ends the process at the nth passing of its own step and nowhere else", "[base][kill_hook]") {
    CHECK(signal_after("after_claim", base::kill_step::after_claim, 1) == SIGKILL);
    CHECK(signal_after("after_claim", base::kill_step::after_answer, 5) == 0);
    CHECK(signal_after("in_rescue:3", base::kill_step::in_rescue, 2) == 0);
    CHECK(signal_after("in_rescue:3", base::kill_step::in_rescue, 3) == SIGKILL);
    CHECK(signal_after("", base::kill_step::after_claim, 5) == 0);
    CHECK(signal_after("after_claim", base::kill_step::none, 5) == 0);
}

TEST_CASE("a kill hook that is not understood arms nothing and says why", "[base][kill_hook]") {
    for (const auto* text : {"after_clam", "none", "after_claim:", "after_claim:0", "after_claim:-1", "after_claim:1x", ":1", "after_claim:99999999999"}) {
        INFO(text);
        const auto wrong = base::arm_kill_hook(text);
        REQUIRE(wrong);
        CHECK(!wrong->empty());
        CHECK(base::armed_kill_hook().empty());
    }
    CHECK(!base::arm_kill_hook("in_migrate:2"));
    CHECK(base::armed_kill_hook() == "in_migrate:2");
    CHECK(!base::arm_kill_hook(""));
    CHECK(base::armed_kill_hook().empty());
}
