#include "lifecycle/circuit.hpp"

namespace outboxd::lifecycle {

std::string_view to_string(circuit_state s) noexcept {
    switch (s) {
        case circuit_state::closed: return "closed";
        case circuit_state::half_open: return "half_open";
        case circuit_state::open: return "open";
    }
    return "closed";
}

circuit_action circuit::step(const circuit_settings& settings, circuit_event event, bool probe) noexcept {
    if (event == circuit_event::neutral) return probe && state_ != circuit_state::closed ? circuit_action::give_back : circuit_action::none;
    if (state_ != circuit_state::closed) {
        // Attempts that were on the wire when the circuit opened say nothing new: only probes decide.
        if (!probe) return circuit_action::none;
        return event == circuit_event::success ? circuit_action::report_ok : circuit_action::report_fault;
    }
    if (event == circuit_event::success) {
        failures_ = 0;
        return circuit_action::none;
    }
    if (settings.failures <= 0) return circuit_action::none;
    if (++failures_ < settings.failures) return circuit_action::none;
    // Shut at once; until when is for the database to say, by adopt().
    state_ = circuit_state::open;
    open_until_ = base::boot_time::max();
    return circuit_action::trip;
}

void circuit::adopt(circuit_state state, base::boot_time open_until) noexcept {
    // No row in the database means closed, which is also what it says while failures are still being counted here.
    if (state == circuit_state::closed && state_ != circuit_state::closed) failures_ = 0;
    state_ = state;
    open_until_ = state == circuit_state::closed ? base::boot_time{} : open_until;
}

bool circuit::wants_probe(base::boot_time now) const noexcept {
    switch (state_) {
        case circuit_state::closed: return false;
        case circuit_state::half_open: return true;
        case circuit_state::open: return now >= open_until_;
    }
    return false;
}

}  // namespace outboxd::lifecycle
