// The life of one database session as a machine. Floor 4 (postgres), pure: events in, the next step out; no clock, no log, no connection.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/time.hpp"

namespace outboxd::postgres {

enum class session_phase : std::uint8_t { disconnected, connecting, ready, backing_off };
[[nodiscard]] std::string_view to_string(session_phase p) noexcept;

enum class session_event : std::uint8_t {
    wanted,          // a call needs the session
    connected,
    connect_failed,
    served,          // a statement was answered: only now the session has proved itself
    lost,            // the connection broke, timed out or is of no use (read-only, shutdown)
    pause_over,
    closed,          // on our own wish
};

struct session_step {
    bool connect{false};          // begin to connect
    base::milliseconds pause{0};  // wait before the next connect (phase backing_off)
    bool report_down{false};      // the first fault since the session last served
    bool report_up{false};        // it serves again after a reported fault
};

class session_state {
public:
    // `random` in [0,1): the pause is between a half and the whole of 100 ms, 200 ms, ... 5 s, so that relays do not come back in step.
    [[nodiscard]] session_step step(session_event event, double random) noexcept;
    [[nodiscard]] session_phase phase() const noexcept { return phase_; }
    [[nodiscard]] int failures() const noexcept { return failures_; }
    [[nodiscard]] bool down() const noexcept { return down_; }

private:
    [[nodiscard]] session_step fault(double random) noexcept;
    session_phase phase_{session_phase::disconnected};
    int failures_{0};   // faults since the session last served: a server that lets us in and breaks each statement is a fault as well
    bool down_{false};
};

}  // namespace outboxd::postgres
