// The database as the relay needs it. Floor 3: abstract; asio::awaitable and nothing else of the effects.
// Every call has its own deadline inside the store; an error names what happened (base::errc) and leaves the store usable: it reconnects by itself, with capped back-off, before the next call.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"
#include "lifecycle/circuit.hpp"
#include "lifecycle/settlement.hpp"
#include "wire/event.hpp"

namespace outboxd::ports {

namespace asio = boost::asio;
template <class T>
using async_result = asio::awaitable<base::result<T>>;

// The lower bound of a lane's scan: the last (due_at, id) claimed, lowered to the last safe moment of the server's clock.
struct lane_bound {
    base::wall_time due_at{};
    std::int64_t id{0};
};

struct lane_ask {
    std::string lane;
    int limit{0};
    std::optional<lane_bound> bound;
    std::string after_key;  // where the scan over ordering keys goes on; empty: from the start
};

struct claim_request {
    std::int64_t relay{0};
    int epoch{0};
    std::vector<lane_ask> lanes;
    std::vector<std::string> exclude;  // lanes that discovery skips (no capacity, open circuit, paused ...)
    std::string discover_after;
    int discover_lanes{0};
    int discover_limit{0};
    int max_rows{0};
    std::int64_t max_bytes{0};
    std::int64_t fetch_max{0};         // larger bodies are not fetched (event.body_left_out)
};

struct claimed {
    std::int64_t delivery{0};
    std::optional<std::string> endpoint;
    std::string lane;
    std::optional<std::string> ordering_key;
    int attempts{0};   // used up so far
    int rescued{0};
    base::wall_time due_at{};
    std::optional<base::wall_time> expires_at;
    std::int64_t size{0};
    std::string format;    // pinned by the first attempt; empty: none yet
    int max_attempts{0};   // the event's own; 0: the endpoint's
    bool event_missing{false};  // the event row is gone: nothing can be sent
    wire::event event;
};

struct claim_reply {
    std::vector<claimed> rows;
    base::wall_time now{};       // the server's clock at the start of the statement
    std::uint64_t xmin{0};       // all transactions below had ended before the scans
    std::uint64_t xmax{0};       // the next transaction id to be given out then; more than the snapshot's xmax
    std::string cursor;          // where discovery goes on
    bool wrapped{false};
    bool more{false};            // due rows were left behind for want of bytes
    std::vector<std::pair<std::string, std::string>> keys;  // lane -> where its key scan goes on ("" = from the start)
};

struct relay_identity {
    std::string name;
    std::string host;
    int pid{0};
    std::string version;
};
struct registration {
    std::int64_t relay{0};
    int epoch{0};
};
struct beat_request {
    std::int64_t relay{0};
    base::milliseconds lease{0};
    int in_flight{0};
    bool listening{false};
    std::string info;  // a JSON object for `status`
};
struct beat_reply {
    bool alive{false};
    int live_relays{1};
    base::wall_time now{};
};
struct rescued_row {
    std::int64_t delivery{0};
    std::string lane;
    std::int64_t dead_relay{0};
    std::string outcome;  // lost | failed
};

struct endpoint_row {
    std::string name;
    std::string url;
    std::optional<std::string> tenant_id;
    bool enabled{true};
    bool paused{false};
    std::string disabled_reason;
    std::string settings;    // JSON object
    std::string managed_by;  // config | cli | sql
    std::vector<std::pair<std::string, std::optional<base::milliseconds>>> secrets;  // newest first, with the time until it expires
    std::optional<base::milliseconds> failing_for;  // how long it has been failing, by the relays' common word
};
struct circuit_row {
    std::string lane;
    lifecycle::circuit_state state{lifecycle::circuit_state::open};
    base::milliseconds opens_for{0};  // until open_until, from now; 0: passed
    std::string last_error;
};
// What a relay noticed about an endpoint: outbox.endpoint_health().
struct endpoint_note {
    std::string name;
    std::optional<base::milliseconds> failing_for;   // nullopt: it delivers
    std::optional<base::milliseconds> last_success;  // how long ago
    std::optional<base::milliseconds> disable_after; // nullopt: never
};
struct disabled_endpoint {
    std::string name;
    std::string reason;
};
struct shared_state {
    std::vector<endpoint_row> endpoints;
    std::string digest;
};

class delivery_store {
public:
    virtual ~delivery_store() = default;

    // The claim session. claim() runs alone: never two at once.
    virtual async_result<claim_reply> claim(claim_request request) = 0;
    // Bumps the relay's epoch so that a claim of an earlier session takes nothing any more. Error lease_lost when the relay row is gone.
    virtual async_result<int> bump_epoch(std::int64_t relay) = 0;
    virtual async_result<std::int64_t> release_unknown(std::int64_t relay, std::vector<std::int64_t> held) = 0;

    // The settle session. Returns the delivery ids really changed.
    virtual async_result<std::vector<std::int64_t>> settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) = 0;

    // The control session (heartbeat, wake-ups, circuits, endpoints).
    virtual async_result<registration> register_relay(relay_identity who, base::milliseconds lease) = 0;
    virtual async_result<beat_reply> beat(beat_request request) = 0;
    virtual async_result<void> set_wake(std::int64_t relay, bool wake) = 0;
    virtual async_result<std::int64_t> retire_relay(std::int64_t relay) = 0;
    virtual async_result<std::string> endpoint_digest() = 0;
    virtual async_result<shared_state> load_endpoints() = 0;
    virtual async_result<void> disable_endpoint(std::string name, std::string reason) = 0;
    // Writes changes of health; returns the endpoints that were disabled because they failed for too long.
    virtual async_result<std::vector<disabled_endpoint>> note_endpoints(std::vector<endpoint_note> notes) = 0;
    virtual async_result<std::vector<circuit_row>> load_circuits() = 0;
    virtual async_result<circuit_row> circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) = 0;
    virtual async_result<bool> circuit_probe(std::string lane, std::int64_t relay, int max_probes, base::milliseconds hold) = 0;
    // ok nullopt: the slot goes back without a verdict.
    virtual async_result<lifecycle::circuit_state> circuit_result(std::string lane, std::int64_t relay, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) = 0;

    // The maintenance session.
    virtual async_result<std::vector<rescued_row>> rescue(std::int64_t relay, int max_rescues, int limit) = 0;
    virtual async_result<std::int64_t> route(int limit, base::milliseconds grace) = 0;
    virtual async_result<std::int64_t> sweep(int batch) = 0;
    virtual async_result<std::int64_t> purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts, int batch) = 0;
    // Lane counts for metrics: {due, scheduled, claimed, failed, unrouted} and the age of the oldest due row in seconds; bounded work (estimates above a limit).
    struct counts {
        std::int64_t due{0}, scheduled{0}, claimed{0}, failed{0}, unrouted{0};
        double oldest_due_seconds{0};
        std::int64_t blocked_keys{0};
    };
    virtual async_result<counts> count() = 0;
    // Row versions that vacuum should have removed by now; nullopt when none pile up.
    struct dead_rows {
        std::string table;
        std::int64_t rows{0};
        std::string held_by;  // who keeps vacuum from removing them, as a sentence's end: a session, a prepared transaction, a replication slot
    };
    virtual async_result<std::optional<dead_rows>> find_dead_rows() = 0;
    // Schema present, of our version and of the expected shape; database writable, UTF8. Error: database_schema, database_read_only ... with the sentence for the operator.
    virtual async_result<void> check_ready() = 0;

    // Ends every wait at once (used at the second signal and at the end of the drain); calls then fail with `cancelled`.
    virtual void abort() = 0;
    // Closes idle sessions in an orderly way.
    virtual void close() = 0;
};

}  // namespace outboxd::ports
