// Role: the outbox in memory: what the database functions do, without a server. Several fake stores (relays) may share one.
// Promise: same visible behaviour as the schema (tests/contract runs one suite on both); every call is one atomic step; the clock is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
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
    lifecycle::circuit_state circuit_result(const std::string& lane, bool ok, const lifecycle::circuit_settings& settings, const std::string& error);
    [[nodiscard]] std::string endpoint_digest() const { return std::to_string(endpoint_changes_); }
    void endpoint_changed() { ++endpoint_changes_; }
    [[nodiscard]] ports::delivery_store::counts count() const;
    /// The status of the event's only delivery, as the view would show it.
    [[nodiscard]] std::string status_of(std::int64_t event) const;
    [[nodiscard]] base::wall_time now() const { return now_(); }

    // Open to tests: invariants are checked on these.
    std::map<std::int64_t, wire::event> events;
    std::map<std::int64_t, fake_delivery> deliveries;
    std::vector<fake_attempt> attempts;
    std::map<std::int64_t, fake_relay> relays;
    std::map<std::string, fake_endpoint> endpoints;
    std::map<std::string, fake_circuit> circuits;

private:
    [[nodiscard]] bool visible(const fake_delivery& d) const { return !open_.contains(d.transaction); }
    [[nodiscard]] bool claimable(const fake_delivery& d, base::wall_time now) const;
    [[nodiscard]] std::map<std::string, std::vector<fake_delivery*>> claimable_by_lane(base::wall_time now);
    [[nodiscard]] bool has_lease(std::int64_t relay) const;
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
