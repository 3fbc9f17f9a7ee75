// The circuit of one lane as this relay sees it: counts consecutive failures while closed; open and half-open live in outbox.circuit, shared by the relays. Floor 1, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace outboxd::lifecycle {

struct circuit_settings {
    int failures{5};  // consecutive, per relay; 0 turns the circuit off
    base::milliseconds open_for{60'000};
    base::milliseconds max_open{3'600'000};
    int half_open_probes{1};
    int successes{2};
    friend bool operator==(const circuit_settings&, const circuit_settings&) = default;
};

enum class circuit_state : std::uint8_t { closed, half_open, open };
[[nodiscard]] std::string_view to_string(circuit_state s) noexcept;

enum class circuit_event : std::uint8_t { success, fault, neutral };  // neutral: 429 with Retry-After, our own faults, proxy faults
enum class circuit_action : std::uint8_t {
    none,
    trip,           // write circuit_trip(): the lane has just reached its limit of failures
    report_ok,      // a probe succeeded: write circuit_result(ok)
    report_fault,   // a probe failed: write circuit_result(not ok)
    give_back,      // a probe proved nothing: its slot goes back without a verdict
};

class circuit {
public:
    // One finished attempt. `probe`: the attempt was a half-open probe.
    [[nodiscard]] circuit_action step(const circuit_settings& settings, circuit_event event, bool probe) noexcept;
    // What the database says (on start, on a `circuit` wake-up, on poll). `open_until` on the local boot clock.
    void adopt(circuit_state state, base::boot_time open_until) noexcept;
    [[nodiscard]] circuit_state state() const noexcept { return state_; }
    [[nodiscard]] base::boot_time open_until() const noexcept { return open_until_; }
    // Ordinary attempts may start.
    [[nodiscard]] bool admits() const noexcept { return state_ == circuit_state::closed; }
    // A probe may be asked for from the database.
    [[nodiscard]] bool wants_probe(base::boot_time now) const noexcept;
    [[nodiscard]] int consecutive_failures() const noexcept { return failures_; }

private:
    circuit_state state_{circuit_state::closed};
    int failures_{0};
    base::boot_time open_until_{};
};

}  // namespace outboxd::lifecycle
