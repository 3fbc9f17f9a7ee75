// Role: the names, labels and values of the exposition.
// Promise: one thread, no network.
#include "telemetry/metrics.hpp"

#include <chrono>
#include <set>
#include <sstream>

#include "support/catch.hpp"
#include "telemetry/metric_names.hpp"

using namespace outboxd;
using Catch::Matchers::Contains;
using lifecycle::outcome;

namespace {

std::set<std::string> families_in(const std::string& text) {
    std::set<std::string> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        if (line.rfind("# TYPE ", 0) == 0) out.insert(line.substr(7));
    }
    return out;
}

// Every metric fed once, so that every family has a series.
void feed(telemetry::metrics& m) {
    m.attempt(outcome::published, 200, 0.02);
    m.circuit_state("billing", 2);
}

}  // namespace

TEST_CASE("metrics: the golden list of names and kinds", "[metrics]") {
    telemetry::metrics m("1.2.3");
    feed(m);
    const std::set<std::string> golden{
        "outboxd_attempts_total counter",
        "outboxd_attempt_duration_seconds histogram",
        "outboxd_first_attempt_latency_seconds histogram",
        "outboxd_deliveries gauge",
        "outboxd_oldest_due_seconds gauge",
        "outboxd_in_flight gauge",
        "outboxd_in_flight_bytes gauge",
        "outboxd_claim_seconds histogram",
        "outboxd_settle_seconds histogram",
        "outboxd_settle_batch_size histogram",
        "outboxd_rescued_total counter",
        "outboxd_lease_lost_total counter",
        "outboxd_circuit_state gauge",
        "outboxd_circuit_transitions_total counter",
        "outboxd_connections_opened_total counter",
        "outboxd_connections_reused_total counter",
        "outboxd_database_up gauge",
        "outboxd_listening gauge",
        "outboxd_last_claim_timestamp_seconds gauge",
        "outboxd_blocked_keys gauge",
        "outboxd_build_info gauge",
    };
    CHECK(families_in(m.text()) == golden);
    CHECK(telemetry::metric_names.size() == golden.size());
}

TEST_CASE("metrics: attempts are counted by outcome and class; a release is no attempt", "[metrics]") {
    telemetry::metrics m("1");
    m.attempt(outcome::published, 204, 0.1);
    m.attempt(outcome::published, 204, 0.1);
    m.attempt(outcome::retried, 503, 0.1);
    m.attempt(outcome::retried, 302, 0.1);
    m.attempt(outcome::retried, 0, 0.1);
    m.attempt(outcome::failed, 999, 0.1);
    m.attempt(outcome::lost, 0, 5);
    m.attempt(outcome::released, 0, 5);
    const std::string text = m.text();
    for (const char* line : {"outboxd_attempts_total{outcome=\"published\",status_class=\"2xx\"} 2\n", "outboxd_attempts_total{outcome=\"retried\",status_class=\"5xx\"} 1\n",
                             "outboxd_attempts_total{outcome=\"retried\",status_class=\"3xx\"} 1\n", "outboxd_attempts_total{outcome=\"retried\",status_class=\"none\"} 1\n",
                             "outboxd_attempts_total{outcome=\"failed\",status_class=\"none\"} 1\n", "outboxd_attempts_total{outcome=\"lost\",status_class=\"none\"} 1\n",
                             "outboxd_attempts_total{outcome=\"expired\",status_class=\"none\"} 0\n", "outboxd_attempt_duration_seconds_count 6\n"}) {
        CHECK_THAT(text, Contains(line));
    }
    CHECK_THAT(text, !Contains("released"));
    CHECK(m.total(outcome::published) == 2);
    CHECK(m.total(outcome::retried) == 3);
    CHECK(m.total(outcome::released) == 1);
}

TEST_CASE("metrics: histograms put values on the right side of their bounds", "[metrics]") {
    telemetry::metrics m("1");
    m.settle_took(0.001, 1);
    m.settle_took(0.0011, 1000);
    m.settle_took(99, 1001);
    m.settle_took(-1, 2);
    m.settle_took(std::numeric_limits<double>::quiet_NaN(), 2);
    const std::string text = m.text();
    for (const char* line : {"outboxd_settle_seconds_bucket{le=\"0.001\"} 1\n", "outboxd_settle_seconds_bucket{le=\"0.0025\"} 2\n", "outboxd_settle_seconds_bucket{le=\"10\"} 2\n",
                             "outboxd_settle_seconds_bucket{le=\"+Inf\"} 3\n", "outboxd_settle_seconds_count 3\n", "outboxd_settle_batch_size_bucket{le=\"1\"} 1\n",
                             "outboxd_settle_batch_size_bucket{le=\"1000\"} 4\n", "outboxd_settle_batch_size_sum 2006\n"}) {
        CHECK_THAT(text, Contains(line));
    }
}

TEST_CASE("metrics: gauges and totals carry what was set", "[metrics]") {
    telemetry::metrics m("1.2.3");
    m.deliveries(1, 2, 3, 4, 5, 6.5);
    m.blocked_keys(7);
    m.in_flight(8, 9'000'000'000);
    m.connections(10, 11);
    m.database_up(true);
    m.listening(true);
    m.claimed_at(1'796'065'427.5);
    m.rescued(12);
    m.rescued(-1);
    m.lease_lost();
    m.circuit_transition("open");
    m.circuit_transition("half_open");
    m.circuit_transition("half-open");
    m.circuit_transition("nonsense");
    m.first_attempt_latency(0.2);
    m.claim_took(0.003);
    const std::string text = m.text();
    for (const char* line :
         {"outboxd_deliveries{state=\"due\"} 1\n", "outboxd_deliveries{state=\"scheduled\"} 2\n", "outboxd_deliveries{state=\"claimed\"} 3\n", "outboxd_deliveries{state=\"failed\"} 4\n",
          "outboxd_deliveries{state=\"unrouted\"} 5\n", "outboxd_oldest_due_seconds 6.5\n", "outboxd_blocked_keys 7\n", "outboxd_in_flight 8\n", "outboxd_in_flight_bytes 9000000000\n",
          "outboxd_connections_opened_total 10\n", "outboxd_connections_reused_total 11\n", "outboxd_database_up 1\n", "outboxd_listening 1\n",
          "outboxd_last_claim_timestamp_seconds 1796065427.5\n", "outboxd_rescued_total 12\n", "outboxd_lease_lost_total 1\n", "outboxd_circuit_transitions_total{to=\"open\"} 1\n",
          "outboxd_circuit_transitions_total{to=\"half_open\"} 2\n", "outboxd_circuit_transitions_total{to=\"closed\"} 0\n", "outboxd_build_info{version=\"1.2.3\"} 1\n",
          "outboxd_first_attempt_latency_seconds_count 1\n", "outboxd_claim_seconds_count 1\n"}) {
        CHECK_THAT(text, Contains(line));
    }
}

TEST_CASE("metrics: at most 200 endpoints by name, the worst of the rest as `other`", "[metrics]") {
    telemetry::metrics m("1");
    for (int i = 0; i < 5000; ++i) m.circuit_state("e" + std::to_string(i), 0);
    m.circuit_state("e4000", 1);
    m.circuit_state("e4001", 2);
    m.circuit_state("e5", 1);
    std::string text = m.text();
    std::size_t series = 0;
    for (std::size_t at = text.find("\noutboxd_circuit_state{"); at != std::string::npos; at = text.find("\noutboxd_circuit_state{", at + 1)) ++series;
    CHECK(series == 201);
    CHECK_THAT(text, Contains("outboxd_circuit_state{endpoint=\"other\"} 2\n") && Contains("outboxd_circuit_state{endpoint=\"e5\"} 1\n"));
    m.circuit_state("e4001", 0);
    CHECK_THAT(m.text(), Contains("outboxd_circuit_state{endpoint=\"other\"} 1\n"));
    m.forget_circuit("e5");
    m.circuit_state("new \"one\"\n\xff", 2);
    text = m.text();
    CHECK_THAT(text, !Contains("endpoint=\"e5\"") && Contains("endpoint=\"new \\\"one\\\""));
    CHECK(text.find('\xff') == std::string::npos);
}

TEST_CASE("metrics: what one attempt costs", "[.][bench]") {
    telemetry::metrics m("1");
    constexpr int rounds = 5'000'000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
        m.attempt(outcome::published, 200, 0.0001 * (i & 1023));
        m.first_attempt_latency(0.0001 * (i & 2047));
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    WARN("attempt + first_attempt_latency: " << took.count() / rounds << " ns");
    CHECK(m.total(outcome::published) == rounds);
}
