// The metrics of contract section 7. Floor 2; prometheus-cpp stays in metrics.cpp. Single-threaded writers (the engine's loop); text() from the same thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lifecycle/outcome.hpp"

namespace outboxd::telemetry {

class metrics {
public:
    explicit metrics(std::string_view version);
    ~metrics();
    metrics(const metrics&) = delete;
    metrics& operator=(const metrics&) = delete;

    // Hot path: plain counters, no map look-up (pre-resolved children per outcome and status class; own bucket arrays folded into prometheus-cpp at scrape are fine).
    void attempt(lifecycle::outcome o, int http_status, double seconds);
    void first_attempt_latency(double seconds);
    void claim_took(double seconds);
    void settle_took(double seconds, int batch);
    void rescued(std::int64_t n);
    void lease_lost();
    void circuit_transition(std::string_view to);
    void circuit_state(std::string_view endpoint, int state);  // 0 closed, 1 half-open, 2 open; at most 200 names, the rest as `other`
    void forget_circuit(std::string_view endpoint);
    void deliveries(std::int64_t due, std::int64_t scheduled, std::int64_t claimed, std::int64_t failed, std::int64_t unrouted, double oldest_due_seconds);
    void blocked_keys(std::int64_t n);
    void in_flight(std::int64_t requests, std::int64_t bytes);
    void connections(std::uint64_t opened_total, std::uint64_t reused_total);
    void database_up(bool up);
    void listening(bool yes);
    void claimed_at(double unix_seconds);  // last successful claim, for `last_claim_timestamp_seconds`
    // Prometheus text exposition format 0.0.4.
    [[nodiscard]] std::string text() const;
    // Totals for `status` and /api: published, retried, failed ... since start.
    [[nodiscard]] std::uint64_t total(lifecycle::outcome o) const noexcept;

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

}  // namespace outboxd::telemetry
