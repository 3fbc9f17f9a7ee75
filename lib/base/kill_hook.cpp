#include "base/kill_hook.hpp"

#include <array>
#include <charconv>
#include <csignal>

namespace outboxd::base {

namespace detail {
std::atomic<kill_step> armed_step{kill_step::none};
}  // namespace detail

namespace {

struct named_step {
    std::string_view name;
    kill_step step;
};

constexpr std::array steps{
    named_step{"after_claim", kill_step::after_claim},     named_step{"while_sending", kill_step::while_sending},
    named_step{"after_answer", kill_step::after_answer},   named_step{"before_settle", kill_step::before_settle},
    named_step{"after_settle_sent", kill_step::after_settle_sent}, named_step{"in_migrate", kill_step::in_migrate},
    named_step{"in_rescue", kill_step::in_rescue},
};

std::atomic<int> passings_left{0};

}  // namespace

std::optional<std::string> arm_kill_hook(std::string_view text) {
    detail::armed_step.store(kill_step::none, std::memory_order_relaxed);
    if (text.empty()) return std::nullopt;
    const auto colon = text.find(':');
    const auto name = text.substr(0, colon);
    int nth = 1;
    if (colon != std::string_view::npos) {
        const auto digits = text.substr(colon + 1);
        const auto end = digits.data() + digits.size();
        const auto read = std::from_chars(digits.data(), end, nth);
        if (read.ec != std::errc{} || read.ptr != end || nth < 1) return "after the colon stands the number of a passing, from 1";
    }
    for (const auto& s : steps) {
        if (s.name != name) continue;
        passings_left.store(nth, std::memory_order_relaxed);
        detail::armed_step.store(s.step, std::memory_order_relaxed);
        return std::nullopt;
    }
    std::string known;
    for (const auto& s : steps) known += (known.empty() ? "" : ", ") + std::string{s.name};
    return "unknown step; the steps are " + known;
}

std::string armed_kill_hook() {
    const auto armed = detail::armed_step.load(std::memory_order_relaxed);
    for (const auto& s : steps) {
        if (s.step == armed) return std::string{s.name} + ":" + std::to_string(passings_left.load(std::memory_order_relaxed));
    }
    return {};
}

void detail::passed_armed_step() noexcept {
    if (passings_left.fetch_sub(1, std::memory_order_relaxed) == 1) (void)std::raise(SIGKILL);
}

}  // namespace outboxd::base
