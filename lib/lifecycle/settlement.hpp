// What is written back for one delivery: values for outbox.settle(). Floor 1, pure.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "lifecycle/outcome.hpp"

namespace outboxd::lifecycle {

// Milliseconds of each phase; -1 where the phase did not take place (a reused connection has no dns, connect, tls).
struct phase_times {
    int dns{-1};
    int connect{-1};
    int tls{-1};
    int first_byte{-1};
};

struct settlement {
    std::int64_t delivery{0};
    lifecycle::outcome outcome{lifecycle::outcome::released};
    bool counts{true};               // uses up an attempt (not so for our own faults and proxy faults)
    int http_status{0};              // 0: no answer
    lifecycle::error_class error_class{lifecycle::error_class::none};
    std::string error;               // printable, at most 500 bytes, no secret, no internal address
    std::string response_excerpt;    // storable, at most 1 KiB
    int duration_ms{0};
    base::boot_time started{};       // the store turns it into "ms ago": only the server's clock is written
    std::optional<base::milliseconds> retry_in;  // retried and released: due this long after the write
    phase_times phases;
    std::string format;              // body format pinned by the first attempt; empty: leave
    bool blocks{false};              // a failed delivery that keeps its ordering key blocked (on_failed: block)
};

}  // namespace outboxd::lifecycle
