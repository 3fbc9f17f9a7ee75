// The database as an operator sees it: lists, explanations and hand work, for the commands and for /api/v1. Floor 3: abstract; asio::awaitable and nothing else
// of the effects. Everything is read from the database alone, so it works with and without running relays. Every call has its own deadline, every list a limit;
// the store reconnects by itself before the next call. No secret comes out of it, but for endpoint_for_test(): URLs lose user and query, header values and
// proxies in settings are left out.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "base/time.hpp"
#include "ports/delivery_store.hpp"

namespace outboxd::ports {

using moment = std::optional<base::wall_time>;

// A count that stopped at a limit: `at_least` says that there may be more.
struct bounded_count {
    std::int64_t n{0};
    bool at_least{false};
};

struct relay_view {
    std::int64_t id{0};
    std::string name, host, version;
    int pid{0};
    moment started_at, lease_until;
    bool alive{false};
    bool listening{false};
    int in_flight{0};
    std::string info;  // the JSON object that the relay reports about itself
};

struct circuit_view {
    std::string lane, state;  // open | half_open
    int failures{0};
    int opens{0};  // how many times in a row
    moment opened_at, open_until;
    std::string last_error;
};

struct lane_view {
    std::string lane;
    bounded_count due, scheduled, keyed, failed;  // due and scheduled: without ordering key; keyed: pending with one
    double oldest_due_seconds{0};
    std::string state;  // ok | paused | disabled | circuit open | circuit half_open
};

// An ordering key that waits for an operator behind a failed delivery (on_failed: block).
struct blocked_key {
    std::string lane, ordering_key, event_id;
    std::int64_t event{0}, delivery{0};
    bounded_count waiting;
};

struct status_report {
    moment now;
    std::string schema;
    int schema_version{0};
    std::int64_t live_estimate{0};  // rows of outbox.delivery as the planner knows them
    bounded_count due, scheduled, claimed, failed, unrouted;
    double oldest_due_seconds{0};
    double rate_window_seconds{0};  // the rates below are over this window
    double published_per_second{0}, retried_per_second{0}, failed_per_second{0};
    std::vector<relay_view> relays;
    std::vector<circuit_view> circuits;
    std::vector<lane_view> lanes;  // those with most work first
    bool more_lanes{false};
    std::vector<blocked_key> blocked;
};

// One row of outbox.status with everything that can explain it.
struct delivery_facts {
    std::int64_t event{0}, delivery{0};  // delivery 0: not fanned out yet
    std::string event_id, event_type;
    std::optional<std::string> endpoint, url;
    std::string status;  // as in outbox.status
    int attempts{0};
    std::string last_outcome, last_error;
    moment next_attempt_at, published_at, created_at, now;
    // Of the live row; empty when it is gone.
    std::string lane;
    std::optional<std::string> ordering_key;
    moment due_at, expires_at;
    bool blocks{false};
    bool wide{false};  // left to the daemon: more endpoints than routing.inline_limit, or behind an unrouted event of its key
    bool routing_gave_up{false};
    // Who has it.
    std::int64_t claimed_by{0};
    std::string claimer;  // `name (host, pid 7)`
    bool claimer_alive{false};
    moment claimer_lease_until;
    // The endpoint and its lane.
    bool endpoint_known{false};
    bool paused{false};
    bool enabled{true};
    std::string disabled_reason;
    moment disabled_at;
    std::string rate_limit;  // the endpoint's own, as written; empty: none of its own
    std::string circuit_state, circuit_error;
    moment circuit_until;
    std::string blocking_event_id, blocking_status;  // the event in front of it with the same ordering key
    bounded_count due_before;                        // rows of the lane due before this one
    int live_relays{0};
    bool rate_limited_now{false};  // a relay says so in its info (`rate_limited`: list of lanes)
};

struct attempt_view {
    std::int64_t id{0}, delivery{0}, event{0}, relay{0};
    std::optional<std::string> endpoint;
    int attempt{0};
    std::string outcome, error_class, error, response_excerpt;
    int http_status{0}, duration_ms{0};
    int dns_ms{-1}, connect_ms{-1}, tls_ms{-1}, first_byte_ms{-1};
    moment started_at, finished_at, next_attempt_at;
};

struct event_view {
    std::int64_t id{0}, size{0};
    std::string event_id, event_type, content_type;
    std::optional<std::string> tenant_id, endpoint, url, breaker_key, ordering_key, subject, source, traceparent;
    std::vector<std::string> header_names;
    moment created_at, deliver_at, expires_at;
    int max_attempts{0};
    std::string statuses;  // `published 2, retrying 1`; only in lists
};

struct event_body {
    bool json{true};
    std::string bytes;  // exactly as inserted
};

struct event_filter {
    std::optional<std::string> type, tenant, endpoint, status;  // type: `order.*` matches any rest
    moment since, until;
    std::int64_t before{0};  // only ids below; 0: from the newest
    int limit{50};
};

struct delivery_view {
    std::int64_t id{0}, event{0}, claimed_by{0}, size{0};
    std::string event_id, event_type, lane, status, last_error;
    std::optional<std::string> endpoint, ordering_key;
    int attempts{0}, rescued{0};
    moment due_at, expires_at;
    bool blocks{false};
};

struct delivery_filter {
    std::optional<std::string> endpoint, lane, status, event;  // status: pending | failed | unrouted; event: event_id or id
    std::int64_t after{0};
    int limit{50};
};

struct secret_view {
    std::int64_t id{0};
    moment created_at, expires_at;
};

struct endpoint_view {
    std::string name, url, managed_by, settings, disabled_reason;
    std::optional<std::string> tenant_id;
    std::vector<std::string> events;
    bool enabled{true}, paused{false};
    moment disabled_at, created_at, updated_at, last_success_at, failing_since;
    std::vector<secret_view> secrets;  // newest first
    std::string circuit_state;         // empty: closed
    bounded_count pending, failed;
};

struct new_endpoint {
    std::string name, url, settings{"{}"};
    std::optional<std::string> tenant_id;
    std::vector<std::string> events{"*"};
    std::optional<base::secret> secret;
    bool enabled{true};
};
struct endpoint_change {
    std::optional<std::string> url, settings;
    std::optional<std::optional<std::string>> tenant_id;
    std::optional<std::vector<std::string>> events;
};

// What one replay did for one endpoint of an event. `result`: a word or sentence of outbox.replay(); delivery 0: nothing was made.
struct replay_row {
    std::int64_t event{0}, delivery{0};
    std::optional<std::string> endpoint;
    std::string lane, result;
};
// What to send again: one endpoint of the event, or everything that it was addressed to.
struct replay_target {
    std::int64_t event{0};
    std::optional<std::string> endpoint;
};
struct replay_candidate {
    std::int64_t event{0};
    std::string event_id, event_type, status;
    std::optional<std::string> endpoint;
};
struct replay_filter {
    std::optional<std::string> type, tenant, endpoint, status;
    moment since, until;
    std::int64_t after{0};
    int scan{2000};  // ids looked at by one call
};
struct replay_page {
    std::vector<replay_candidate> found;
    std::int64_t next_after{0};
    bool end{false};
};
struct purge_counts {
    std::int64_t events{0}, deliveries{0}, attempts{0};
    // Where the walks over events and attempts stand after this step; the one over events begins anew at 0.
    std::int64_t events_at{0}, attempts_at{0};
    // When the last step ran, by the server's clock in us since the epoch. Unchanged after a step: another process was at retention and the step did nothing.
    std::int64_t ran_at{0};
};
struct retry_reply {
    std::int64_t delivery{0};
    std::string result;  // `ok`, or why not
};

class operator_store {
public:
    virtual ~operator_store() = default;

    virtual async_result<status_report> status() = 0;
    // The internal id of an event given by event_id or by number; event_id wins. Error not_found.
    virtual async_result<std::int64_t> find_event(std::string text) = 0;
    virtual async_result<std::vector<delivery_facts>> why(std::int64_t event) = 0;
    virtual async_result<std::vector<event_view>> list_events(event_filter filter) = 0;
    virtual async_result<event_view> show_event(std::int64_t event) = 0;
    virtual async_result<event_body> body(std::int64_t event) = 0;
    virtual async_result<std::vector<delivery_view>> list_deliveries(delivery_filter filter) = 0;
    virtual async_result<std::vector<attempt_view>> attempts_of_event(std::int64_t event, int limit) = 0;
    // The event that a delivery belongs to, live or finished. Error not_found.
    virtual async_result<std::int64_t> event_of_delivery(std::int64_t delivery) = 0;
    virtual async_result<std::vector<circuit_view>> list_circuits() = 0;
    virtual async_result<std::vector<relay_view>> list_relays() = 0;

    virtual async_result<retry_reply> retry(std::int64_t delivery) = 0;
    virtual async_result<retry_reply> cancel(std::int64_t delivery) = 0;
    // Lets the ordering key behind a failed delivery go on; the failed one stays failed.
    virtual async_result<retry_reply> unblock(std::int64_t delivery) = 0;
    virtual async_result<replay_page> replay_candidates(replay_filter filter) = 0;
    virtual async_result<std::vector<replay_row>> replay(std::vector<replay_target> targets) = 0;
    // A new event with the old one's content and a new event_id, which is returned. `endpoint` addresses it there only.
    virtual async_result<std::string> copy_event(std::int64_t event, std::optional<std::string> endpoint) = 0;

    virtual async_result<std::vector<endpoint_view>> list_endpoints() = 0;
    virtual async_result<endpoint_view> show_endpoint(std::string name) = 0;
    virtual async_result<void> add_endpoint(new_endpoint what) = 0;  // error refused: the name is taken
    // Settings as stored, for merging a change into them: holds header values. Not for printing.
    virtual async_result<std::string> endpoint_settings(std::string name) = 0;
    virtual async_result<void> change_endpoint(std::string name, endpoint_change change) = 0;
    virtual async_result<void> set_enabled(std::string name, bool enabled, std::string reason) = 0;
    virtual async_result<void> set_paused(std::string name, bool paused) = 0;
    // One bounded step: cancels pending deliveries, at last removes the row. Returns how many were cancelled and whether the row is gone.
    struct removal {
        std::int64_t cancelled{0};
        bool gone{false};
    };
    virtual async_result<removal> remove_endpoint(std::string name) = 0;
    virtual async_result<void> rotate_secret(std::string name, base::secret fresh, base::milliseconds old_ones_for) = 0;
    // The row with its secrets, as the relay reads it.
    virtual async_result<endpoint_row> endpoint_for_test(std::string name) = 0;

    virtual async_result<purge_counts> purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts, int batch) = 0;
};

}  // namespace outboxd::ports
