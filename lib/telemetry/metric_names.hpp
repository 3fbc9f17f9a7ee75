// Every metric's name, kind and sentence, in one place. Floor 2, constants only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace outboxd::telemetry {

enum class metric_kind : std::uint8_t { counter, gauge, histogram };

struct metric_name {
    std::string_view name;
    metric_kind kind;
    std::string_view labels;  // comma separated, empty: none
    std::string_view help;
};

namespace metric {
inline constexpr metric_name attempts_total{"outboxd_attempts_total", metric_kind::counter, "outcome,status_class",
                                            "Attempts and final decisions by outcome and class of the HTTP status (none: no answer)"};
inline constexpr metric_name attempt_duration{"outboxd_attempt_duration_seconds", metric_kind::histogram, "", "Time of one attempt: DNS, connect, TLS, write, read of the answer"};
inline constexpr metric_name first_attempt_latency{"outboxd_first_attempt_latency_seconds", metric_kind::histogram, "", "From the event's created_at to the start of its first attempt"};
inline constexpr metric_name deliveries{"outboxd_deliveries", metric_kind::gauge, "state", "Live deliveries by state: due, scheduled, claimed, failed, unrouted"};
inline constexpr metric_name oldest_due{"outboxd_oldest_due_seconds", metric_kind::gauge, "", "Age of the delivery that has been due for longest"};
inline constexpr metric_name in_flight{"outboxd_in_flight", metric_kind::gauge, "", "Requests on the wire"};
inline constexpr metric_name in_flight_bytes{"outboxd_in_flight_bytes", metric_kind::gauge, "", "Bytes of event bodies held in memory"};
inline constexpr metric_name claim_time{"outboxd_claim_seconds", metric_kind::histogram, "", "Time of one claim statement"};
inline constexpr metric_name settle_time{"outboxd_settle_seconds", metric_kind::histogram, "", "Time of one settle statement"};
inline constexpr metric_name settle_batch_size{"outboxd_settle_batch_size", metric_kind::histogram, "", "Settlements written by one statement"};
inline constexpr metric_name rescued_total{"outboxd_rescued_total", metric_kind::counter, "", "Deliveries taken back from relays that died or lost their lease"};
inline constexpr metric_name lease_lost_total{"outboxd_lease_lost_total", metric_kind::counter, "", "Times that this relay lost its lease"};
inline constexpr metric_name circuit_state{"outboxd_circuit_state", metric_kind::gauge, "endpoint",
                                           "Circuit of an endpoint's lane: 0 closed, 1 half-open, 2 open; `other` is the worst of those without a name here"};
inline constexpr metric_name circuit_transitions_total{"outboxd_circuit_transitions_total", metric_kind::counter, "to", "Changes of circuits that this relay caused"};
inline constexpr metric_name connections_opened_total{"outboxd_connections_opened_total", metric_kind::counter, "", "Connections to endpoints opened"};
inline constexpr metric_name connections_reused_total{"outboxd_connections_reused_total", metric_kind::counter, "", "Attempts that went over a connection kept alive"};
inline constexpr metric_name database_up{"outboxd_database_up", metric_kind::gauge, "", "1 while the database answers and is writable"};
inline constexpr metric_name listening{"outboxd_listening", metric_kind::gauge, "", "1 while wake-ups are listened for"};
inline constexpr metric_name last_claim{"outboxd_last_claim_timestamp_seconds", metric_kind::gauge, "", "Unix time of the last claim that succeeded; 0 before the first"};
inline constexpr metric_name blocked_keys{"outboxd_blocked_keys", metric_kind::gauge, "", "Ordering keys that wait for an operator (on_failed: block)"};
inline constexpr metric_name build_info{"outboxd_build_info", metric_kind::gauge, "version", "Always 1; the version is the label"};
}  // namespace metric

// In the order of the exposition.
inline constexpr std::array metric_names{
    metric::attempts_total,     metric::attempt_duration,  metric::first_attempt_latency,     metric::deliveries,
    metric::oldest_due,         metric::in_flight,         metric::in_flight_bytes,           metric::claim_time,
    metric::settle_time,        metric::settle_batch_size, metric::rescued_total,             metric::lease_lost_total,
    metric::circuit_state,      metric::circuit_transitions_total, metric::connections_opened_total, metric::connections_reused_total,
    metric::database_up,        metric::listening,         metric::last_claim,                metric::blocked_keys,
    metric::build_info,
};

inline constexpr std::size_t max_endpoint_labels = 200;

}  // namespace outboxd::telemetry
