// A way for tests to end this process with SIGKILL at a named step, as a crash would. Floor 0: one relaxed load where nothing is armed, which is always so outside tests.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

namespace outboxd::base {

// The steps in the order of a row's way; `none` stands for no step.
enum class kill_step {
    none,
    after_claim,        // rows are claimed, their lanes do not know them yet
    while_sending,      // a part of the request or all of it is written, nothing of the answer read
    after_answer,       // the answer is read, its settlement not yet queued
    before_settle,      // the settlement is about to be sent to the database
    after_settle_sent,  // it is sent, the reply not read
    in_migrate,         // a migration's text has run, its transaction is open
    in_rescue,          // the statement that takes back a dead relay's rows is sent, the reply not read
};

// Arms `name` or `name:nth` (the nth passing, from 1); an empty text arms nothing. Gives what is wrong with the text, and then nothing is armed.
[[nodiscard]] std::optional<std::string> arm_kill_hook(std::string_view text);
// What is armed, for a warning; empty when nothing is.
[[nodiscard]] std::string armed_kill_hook();

namespace detail {
extern std::atomic<kill_step> armed_step;
void passed_armed_step() noexcept;
}  // namespace detail

inline void kill_point(kill_step here) noexcept {
    const auto armed = detail::armed_step.load(std::memory_order_relaxed);
    if (armed == kill_step::none) [[likely]]
        return;
    if (armed == here) detail::passed_armed_step();
}

}  // namespace outboxd::base
