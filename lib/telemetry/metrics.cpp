#include "telemetry/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "base/encoding.hpp"
#include "telemetry/metric_names.hpp"

namespace outboxd::telemetry {
namespace {

using lifecycle::outcome;

constexpr std::array<std::string_view, 6> status_classes{"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
constexpr std::size_t outcome_count = 7;
constexpr std::size_t max_other_circuits = 10'000;

std::size_t status_class_of(int http_status) noexcept {
    return http_status >= 100 && http_status < 600 ? static_cast<std::size_t>(http_status / 100) : 0;
}

// A histogram without locks or look-ups: one writer, a short linear search.
template <std::size_t N>
class buckets {
public:
    explicit constexpr buckets(const std::array<double, N>& bounds) : bounds_(bounds) {}
    void observe(double value) noexcept {
        if (!(value >= 0) || !std::isfinite(value)) return;  // a clock that went back is no measurement
        std::size_t i = 0;
        while (i < N && value > bounds_[i]) ++i;
        ++counts_[i];
        sum_ += value;
    }
    [[nodiscard]] prometheus::ClientMetric collect() const {
        prometheus::ClientMetric out;
        std::uint64_t cumulative = 0;
        for (std::size_t i = 0; i <= N; ++i) {
            cumulative += counts_[i];
            out.histogram.bucket.push_back({cumulative, i < N ? bounds_[i] : std::numeric_limits<double>::infinity()});
        }
        out.histogram.sample_count = cumulative;
        out.histogram.sample_sum = sum_;
        return out;
    }

private:
    std::array<double, N> bounds_;
    std::array<std::uint64_t, N + 1> counts_{};
    double sum_{0};
};

constexpr std::array attempt_bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0};
constexpr std::array latency_bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0};
constexpr std::array statement_bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0};
constexpr std::array batch_bounds{1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0};

prometheus::ClientMetric counter_value(double value) {
    prometheus::ClientMetric out;
    out.counter.value = value;
    return out;
}

prometheus::ClientMetric gauge_value(double value) {
    prometheus::ClientMetric out;
    out.gauge.value = value;
    return out;
}

prometheus::ClientMetric labelled(prometheus::ClientMetric value, std::string_view label, std::string_view text) {
    value.label.push_back({std::string(label), std::string(text)});
    return value;
}

prometheus::MetricType type_of(metric_kind kind) noexcept {
    switch (kind) {
        case metric_kind::counter: return prometheus::MetricType::Counter;
        case metric_kind::gauge: return prometheus::MetricType::Gauge;
        case metric_kind::histogram: return prometheus::MetricType::Histogram;
    }
    return prometheus::MetricType::Untyped;
}

void add(std::vector<prometheus::MetricFamily>& families, const metric_name& name, std::vector<prometheus::ClientMetric> values) {
    if (values.empty()) return;
    families.push_back({std::string(name.name), std::string(name.help), type_of(name.kind), std::move(values)});
}

void add_counter(std::vector<prometheus::MetricFamily>& families, const metric_name& name, std::uint64_t value) { add(families, name, {counter_value(static_cast<double>(value))}); }
void add_gauge(std::vector<prometheus::MetricFamily>& families, const metric_name& name, double value) { add(families, name, {gauge_value(value)}); }

// Series that exist from the start, so that a rate over them sees the first increase.
bool always_shown(outcome o, std::size_t status_class) noexcept {
    switch (o) {
        case outcome::published: return status_class == 2;
        case outcome::retried: return status_class == 0 || status_class == 4 || status_class == 5;
        case outcome::failed: return status_class == 0 || status_class == 4 || status_class == 5;
        case outcome::expired:
        case outcome::cancelled:
        case outcome::lost: return status_class == 0;
        case outcome::released: return false;
    }
    return false;
}

}  // namespace

struct metrics::parts {
    std::string version;
    std::array<std::array<std::uint64_t, status_classes.size()>, outcome_count> attempts{};
    buckets<attempt_bounds.size()> attempt_duration{attempt_bounds};
    buckets<latency_bounds.size()> first_attempt_latency{latency_bounds};
    buckets<statement_bounds.size()> claim{statement_bounds};
    buckets<statement_bounds.size()> settle{statement_bounds};
    buckets<batch_bounds.size()> settle_batch{batch_bounds};
    std::uint64_t rescued{0};
    std::uint64_t lease_lost{0};
    std::array<std::uint64_t, 3> transitions{};  // closed, half_open, open
    std::map<std::string, int, std::less<>> circuits;
    std::map<std::string, int, std::less<>> other_circuits;  // those past the limit of names that are not closed
    bool had_other_circuits{false};
    std::array<std::int64_t, 5> deliveries{};
    double oldest_due{0};
    std::int64_t blocked_keys{0};
    std::int64_t in_flight{0};
    std::int64_t in_flight_bytes{0};
    std::uint64_t connections_opened{0};
    std::uint64_t connections_reused{0};
    bool database_up{false};
    bool listening{false};
    double last_claim{0};

    [[nodiscard]] std::vector<prometheus::ClientMetric> collect_attempts() const;
    [[nodiscard]] std::vector<prometheus::ClientMetric> collect_deliveries() const;
    [[nodiscard]] std::vector<prometheus::ClientMetric> collect_transitions() const;
    [[nodiscard]] std::vector<prometheus::ClientMetric> collect_circuits() const;
};

std::vector<prometheus::ClientMetric> metrics::parts::collect_attempts() const {
    std::vector<prometheus::ClientMetric> out;
    for (std::size_t o = 0; o < outcome_count; ++o) {
        const auto value = static_cast<outcome>(o);
        if (value == outcome::released) continue;  // a release is no attempt
        for (std::size_t c = 0; c < status_classes.size(); ++c) {
            if (attempts[o][c] == 0 && !always_shown(value, c)) continue;
            out.push_back(labelled(labelled(counter_value(static_cast<double>(attempts[o][c])), "outcome", to_string(value)), "status_class", status_classes[c]));
        }
    }
    return out;
}

std::vector<prometheus::ClientMetric> metrics::parts::collect_deliveries() const {
    static constexpr std::array<std::string_view, 5> states{"due", "scheduled", "claimed", "failed", "unrouted"};
    std::vector<prometheus::ClientMetric> out;
    for (std::size_t i = 0; i < states.size(); ++i) out.push_back(labelled(gauge_value(static_cast<double>(deliveries[i])), "state", states[i]));
    return out;
}

std::vector<prometheus::ClientMetric> metrics::parts::collect_transitions() const {
    static constexpr std::array<std::string_view, 3> states{"closed", "half_open", "open"};
    std::vector<prometheus::ClientMetric> out;
    for (std::size_t i = 0; i < states.size(); ++i) out.push_back(labelled(counter_value(static_cast<double>(transitions[i])), "to", states[i]));
    return out;
}

std::vector<prometheus::ClientMetric> metrics::parts::collect_circuits() const {
    std::vector<prometheus::ClientMetric> out;
    for (const auto& [name, state] : circuits) out.push_back(labelled(gauge_value(state), "endpoint", name));
    if (had_other_circuits) {
        int worst = 0;
        for (const auto& [name, state] : other_circuits) worst = std::max(worst, state);
        out.push_back(labelled(gauge_value(worst), "endpoint", "other"));
    }
    return out;
}

metrics::metrics(std::string_view version) : parts_(std::make_unique<parts>()) { parts_->version = version; }
metrics::~metrics() = default;

void metrics::attempt(outcome o, int http_status, double seconds) {
    ++parts_->attempts[static_cast<std::size_t>(o)][status_class_of(http_status)];
    // Only what went over the wire has a duration.
    if (o == outcome::published || o == outcome::retried || o == outcome::failed) parts_->attempt_duration.observe(seconds);
}

void metrics::first_attempt_latency(double seconds) { parts_->first_attempt_latency.observe(seconds); }
void metrics::claim_took(double seconds) { parts_->claim.observe(seconds); }

void metrics::settle_took(double seconds, int batch) {
    parts_->settle.observe(seconds);
    parts_->settle_batch.observe(batch);
}

void metrics::rescued(std::int64_t n) {
    if (n > 0) parts_->rescued += static_cast<std::uint64_t>(n);
}

void metrics::lease_lost() { ++parts_->lease_lost; }

void metrics::circuit_transition(std::string_view to) {
    if (to == "closed") ++parts_->transitions[0];
    if (to == "half_open" || to == "half-open") ++parts_->transitions[1];
    if (to == "open") ++parts_->transitions[2];
}

void metrics::circuit_state(std::string_view endpoint, int state) {
    // Lanes of direct URLs may carry any text of the application.
    const std::string name = base::printable(endpoint, 128);
    const auto known = parts_->circuits.find(name);
    if (known != parts_->circuits.end()) {
        known->second = state;
    } else if (parts_->circuits.size() < max_endpoint_labels && !parts_->other_circuits.contains(name)) {
        parts_->circuits.emplace(name, state);
    } else if (state == 0) {
        parts_->had_other_circuits = true;
        parts_->other_circuits.erase(name);
    } else if (parts_->other_circuits.size() < max_other_circuits) {
        parts_->had_other_circuits = true;
        parts_->other_circuits.insert_or_assign(name, state);
    }
}

void metrics::forget_circuit(std::string_view endpoint) {
    const std::string name = base::printable(endpoint, 128);
    parts_->circuits.erase(name);
    parts_->other_circuits.erase(name);
}

void metrics::deliveries(std::int64_t due, std::int64_t scheduled, std::int64_t claimed, std::int64_t failed, std::int64_t unrouted, double oldest_due_seconds) {
    parts_->deliveries = {due, scheduled, claimed, failed, unrouted};
    parts_->oldest_due = oldest_due_seconds;
}

void metrics::blocked_keys(std::int64_t n) { parts_->blocked_keys = n; }

void metrics::in_flight(std::int64_t requests, std::int64_t bytes) {
    parts_->in_flight = requests;
    parts_->in_flight_bytes = bytes;
}

void metrics::connections(std::uint64_t opened_total, std::uint64_t reused_total) {
    parts_->connections_opened = opened_total;
    parts_->connections_reused = reused_total;
}

void metrics::database_up(bool up) { parts_->database_up = up; }
void metrics::listening(bool yes) { parts_->listening = yes; }
void metrics::claimed_at(double unix_seconds) { parts_->last_claim = unix_seconds; }

std::string metrics::text() const {
    const parts& p = *parts_;
    std::vector<prometheus::MetricFamily> families;
    families.reserve(metric_names.size());
    add(families, metric::attempts_total, p.collect_attempts());
    add(families, metric::attempt_duration, {p.attempt_duration.collect()});
    add(families, metric::first_attempt_latency, {p.first_attempt_latency.collect()});
    add(families, metric::deliveries, p.collect_deliveries());
    add_gauge(families, metric::oldest_due, p.oldest_due);
    add_gauge(families, metric::in_flight, static_cast<double>(p.in_flight));
    add_gauge(families, metric::in_flight_bytes, static_cast<double>(p.in_flight_bytes));
    add(families, metric::claim_time, {p.claim.collect()});
    add(families, metric::settle_time, {p.settle.collect()});
    add(families, metric::settle_batch_size, {p.settle_batch.collect()});
    add_counter(families, metric::rescued_total, p.rescued);
    add_counter(families, metric::lease_lost_total, p.lease_lost);
    add(families, metric::circuit_state, p.collect_circuits());
    add(families, metric::circuit_transitions_total, p.collect_transitions());
    add_counter(families, metric::connections_opened_total, p.connections_opened);
    add_counter(families, metric::connections_reused_total, p.connections_reused);
    add_gauge(families, metric::database_up, p.database_up ? 1 : 0);
    add_gauge(families, metric::listening, p.listening ? 1 : 0);
    add_gauge(families, metric::last_claim, p.last_claim);
    add_gauge(families, metric::blocked_keys, static_cast<double>(p.blocked_keys));
    add(families, metric::build_info, {labelled(gauge_value(1), "version", p.version)});
    std::ostringstream out;
    prometheus::TextSerializer{}.Serialize(out, families);
    return out.str();
}

std::uint64_t metrics::total(outcome o) const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : parts_->attempts[static_cast<std::size_t>(o)]) sum += n;
    return sum;
}

}  // namespace outboxd::telemetry
