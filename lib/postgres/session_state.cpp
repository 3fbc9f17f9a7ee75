#include "postgres/session_state.hpp"

#include <algorithm>

namespace outboxd::postgres {

namespace {

constexpr std::int64_t first_pause_ms = 100;
constexpr std::int64_t longest_pause_ms = 5000;

base::milliseconds pause_after(int failures, double random) noexcept {
    const auto doublings = std::clamp(failures - 1, 0, 10);
    const auto whole = std::min(first_pause_ms << doublings, longest_pause_ms);
    return base::milliseconds{static_cast<std::int64_t>(static_cast<double>(whole) * (0.5 + 0.5 * std::clamp(random, 0.0, 1.0)))};
}

}  // namespace

std::string_view to_string(session_phase p) noexcept {
    switch (p) {
        case session_phase::disconnected: return "disconnected";
        case session_phase::connecting: return "connecting";
        case session_phase::ready: return "ready";
        case session_phase::backing_off: return "backing off";
    }
    return "disconnected";
}

session_step session_state::fault(double random) noexcept {
    failures_ = std::min(failures_ + 1, 1'000'000);
    phase_ = session_phase::backing_off;
    session_step next;
    next.pause = pause_after(failures_, random);
    next.report_down = !down_;
    down_ = true;
    return next;
}

session_step session_state::step(session_event event, double random) noexcept {
    session_step next;
    switch (event) {
        case session_event::wanted:
            if (phase_ == session_phase::disconnected) {
                phase_ = session_phase::connecting;
                next.connect = true;
            }
            return next;
        case session_event::pause_over:
            if (phase_ == session_phase::backing_off) phase_ = session_phase::disconnected;
            return next;
        case session_event::connected:
            if (phase_ == session_phase::connecting) phase_ = session_phase::ready;
            return next;
        case session_event::served:
            failures_ = 0;
            next.report_up = down_;
            down_ = false;
            return next;
        case session_event::connect_failed:
            if (phase_ == session_phase::connecting) return fault(random);
            return next;
        case session_event::lost:
            if (phase_ == session_phase::ready) return fault(random);
            return next;
        case session_event::closed:
            phase_ = session_phase::disconnected;
            return next;
    }
    return next;
}

}  // namespace outboxd::postgres
