// Role: the outbox in memory: what the database functions do, without a server. Several fake stores (relays) may share one.
// Promise: same visible behaviour as the schema (tests/contract runs one suite on both); every call is one atomic step; the clock is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ports/delivery_store.hpp"

namespace outboxd::testkit {

/// What an application inserts.
struct fake_event {
    std::string event_type{"test.event"};
    std::string body{"{}"};
    bool is_json{true};
    std::optional<std::string> endpoint;
    std::string url;
    std::string lane;  ///< of a direct URL; empty: url:test
    std::optional<std::string> ordering_key;
    std::optional<std::string> tenant_id;
    std::optional<base::wall_time> deliver_at;
    std::optional<base::wall_time> expires_at;
    int max_attempts{0};
};

struct fake_delivery {
    std::int64_t id{0};
    std::int64_t event{0};
    std::optional<std::string> endpoint;
    std::string lane;
    std::optional<std::string> ordering_key;
    std::string status{"pending"};
    int attempts{0};
    int rescued{0};
    int max_attempts{0};
    std::optional<std::int64_t> claimed_by;
    base::wall_time due_at{};
    std::optional<base::wall_time> expires_at;
    std::int64_t size{0};
    std::string format;
    bool blocks{false};
    std::uint64_t transaction{0};  ///< that made it
};

struct fake_attempt {
    std::int64_t delivery{0};
    std::int64_t event{0};
    int attempt{0};
    std::string outcome;
    int http_status{0};
    std::string error_class;
    std::string error;
    std::optional<base::wall_time> next_attempt_at;
    std::int64_t relay{0};
};

struct fake_relay {
    int epoch{0};
    bool wake{false};
    bool listening{false};
    base::wall_time lease_until{};
};

struct fake_endpoint {
    ports::endpoint_row row;
    std::vector<std::string> events{"*"};
    std::optional<base::wall_time> failing_since;
    std::optional<base::wall_time> last_success_at;
};

struct fake_circuit {
    lifecycle::circuit_state state{lifecycle::circuit_state::open};
    int failures{0};
    int successes{0};
    int opens{1};
    int probes{0};
    base::wall_time open_until{};
    base::wall_time probe_until{};
    std::string last_error;
};

/// Rules that the database breaks on purpose, so that a test of the invariants can prove that it notices.
struct broken_rules {
    bool settle_unfenced{false};       ///< a result is taken whoever holds the row
    bool claims_the_claimed{false};
    bool epoch_unchecked{false};
    bool lease_unchecked{false};       ///< claim() serves a relay without a lease
    bool rescues_the_living{false};
    bool rescues_unlimited{false};
    bool order_ignored{false};
    bool due_ignored{false};
    bool uncommitted_seen{false};
    bool attempts_uncounted{false};
    bool body_rewritten{false};        ///< the body of a second attempt is not what was inserted
    bool id_renewed{false};            ///< the event's id changes with the attempt
    bool snapshot_denied{false};       ///< a claim says that no transaction is running
    bool retire_keeps_claims{false};
    bool fans_out_again{false};        ///< the sweep fans out what has been
    bool never_sweeps{false};
    bool probes_unlimited{false};
    bool loses_retries{false};         ///< a retried delivery is deleted
};

class fake_database {
public:
    using clock = std::function<base::wall_time()>;
    explicit fake_database(clock now) : now_(std::move(now)) {}

    // The application's side. transaction 0: a transaction of its own, committed at once.
    std::uint64_t begin();
    void commit(std::uint64_t transaction);
    void rollback(std::uint64_t transaction);
    std::int64_t insert(const fake_event& e, std::uint64_t transaction = 0);
    /// As the sweep finds them: an event without any delivery.
    std::int64_t insert_unseen(const fake_event& e);
    void add_endpoint(fake_endpoint e);
    void remove_event(std::int64_t event) { events.erase(event); }

    // The functions of the schema; names and order of parameters as there.
    base::result<ports::claim_reply> claim(const ports::claim_request& request);
    std::vector<std::int64_t> settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch);
    ports::registration register_relay(base::milliseconds lease);
    ports::beat_reply beat(const ports::beat_request& request);
    std::optional<int> bump_epoch(std::int64_t relay);
    std::int64_t release_unknown(std::int64_t relay, const std::vector<std::int64_t>& held);
    std::int64_t retire_relay(std::int64_t relay);
    std::vector<ports::rescued_row> rescue(std::int64_t relay, int max_rescues, int limit);
    std::int64_t route(int limit, base::milliseconds grace);
    std::int64_t sweep(int batch);
    ports::circuit_row circuit_trip(const std::string& lane, const lifecycle::circuit_settings& settings, const std::string& error);
    bool circuit_probe(const std::string& lane, int max_probes, base::milliseconds hold);
    lifecycle::circuit_state circuit_result(const std::string& lane, std::optional<bool> ok, const lifecycle::circuit_settings& settings, const std::string& error);
    std::vector<ports::disabled_endpoint> note_endpoints(const std::vector<ports::endpoint_note>& notes);
    [[nodiscard]] std::string endpoint_digest() const { return std::to_string(endpoint_changes_); }
    void endpoint_changed() { ++endpoint_changes_; }
    [[nodiscard]] ports::delivery_store::counts count() const;
    /// The status of the event's only delivery, as the view would show it.
    [[nodiscard]] std::string status_of(std::int64_t event) const;
    [[nodiscard]] base::wall_time now() const { return now_(); }
    [[nodiscard]] bool visible(const fake_delivery& d) const { return !open_.contains(d.transaction) || broken.uncommitted_seen; }
    [[nodiscard]] bool has_lease(std::int64_t relay) const;

    // Told of what happens inside: a row that is about to be claimed, and each line of history before the row changes.
    std::function<void(const fake_delivery& row, const ports::claim_request& request)> on_claim;
    std::function<void(const fake_delivery& row, const fake_attempt& line)> on_history;
    broken_rules broken;

    // Open to tests: invariants are checked on these.
    std::map<std::int64_t, wire::event> events;
    std::map<std::int64_t, fake_delivery> deliveries;
    std::vector<fake_attempt> attempts;
    std::map<std::int64_t, fake_relay> relays;
    std::map<std::string, fake_endpoint> endpoints;
    std::map<std::string, fake_circuit> circuits;

private:
    [[nodiscard]] bool ready(const fake_delivery& d, base::wall_time now) const;
    [[nodiscard]] std::map<std::pair<std::string_view, std::string_view>, std::int64_t> heads_of_keys() const;
    [[nodiscard]] std::map<std::string, std::vector<fake_delivery*>> claimable_by_lane(base::wall_time now);
    void fan_out(std::int64_t event, const fake_event& e, std::uint64_t transaction);
    [[nodiscard]] std::vector<std::string> matches(const fake_event& e) const;
    void note(const fake_delivery& d, int attempt, std::string outcome, std::int64_t relay, const lifecycle::settlement* s = nullptr);
    bool settle_one(std::int64_t relay, const lifecycle::settlement& s);

    clock now_;
    std::set<std::uint64_t> open_;
    std::map<std::int64_t, fake_event> inserted_;
    std::set<std::int64_t> unseen_;
    std::uint64_t next_transaction_{100};
    std::int64_t next_event_{1};
    std::int64_t next_delivery_{1};
    std::int64_t next_relay_{1};
    std::uint64_t endpoint_changes_{0};
};

}  // namespace outboxd::testkit
