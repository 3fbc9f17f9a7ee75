// The delivery store on PostgreSQL. Floor 4 (postgres): five sessions, so that a slow statement of one kind never holds up another; each reconnects by itself; errors are values.
#pragma once

#include <memory>
#include <string>

#include "ports/delivery_store.hpp"
#include "postgres/session.hpp"
#include "postgres/statements.hpp"

namespace outboxd::postgres {

// What each statement may take. A wait for the connection comes on top, at most as long again.
struct store_deadlines {
    base::milliseconds claim{10'000};
    base::milliseconds settle{15'000};
    base::milliseconds control{5'000};
    base::milliseconds maintenance{30'000};
    base::milliseconds repair{30'000};  // release_unknown and retire_relay walk the live table
};

class pg_delivery_store final : public ports::delivery_store {
public:
    // `options.purpose` is set by the store for each session: `outboxd claim`, `outboxd settle`, ...
    pg_delivery_store(asio::any_io_executor executor, const connect_options& options, std::string schema, store_deadlines deadlines = {});
    ~pg_delivery_store() override;

    ports::async_result<ports::claim_reply> claim(ports::claim_request request) override;
    ports::async_result<int> bump_epoch(std::int64_t relay) override;
    ports::async_result<std::int64_t> release_unknown(std::int64_t relay, std::vector<std::int64_t> held) override;
    ports::async_result<std::vector<std::int64_t>> settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) override;
    ports::async_result<ports::registration> register_relay(ports::relay_identity who, base::milliseconds lease) override;
    ports::async_result<ports::beat_reply> beat(ports::beat_request request) override;
    ports::async_result<void> set_wake(std::int64_t relay, bool wake) override;
    ports::async_result<std::int64_t> retire_relay(std::int64_t relay) override;
    ports::async_result<std::string> endpoint_digest() override;
    ports::async_result<ports::shared_state> load_endpoints() override;
    ports::async_result<void> disable_endpoint(std::string name, std::string reason) override;
    ports::async_result<std::vector<ports::disabled_endpoint>> note_endpoints(std::vector<ports::endpoint_note> notes) override;
    ports::async_result<std::vector<ports::circuit_row>> load_circuits() override;
    ports::async_result<ports::circuit_row> circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) override;
    ports::async_result<bool> circuit_probe(std::string lane, std::int64_t relay, int max_probes, base::milliseconds hold) override;
    ports::async_result<lifecycle::circuit_state> circuit_result(std::string lane, std::int64_t relay, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) override;
    ports::async_result<std::vector<ports::rescued_row>> rescue(std::int64_t relay, int max_rescues, int limit) override;
    ports::async_result<std::int64_t> route(int limit, base::milliseconds grace) override;
    ports::async_result<std::int64_t> sweep(int batch) override;
    ports::async_result<std::int64_t> purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts, int batch) override;
    ports::async_result<counts> count() override;
    ports::async_result<std::optional<dead_rows>> find_dead_rows() override;
    ports::async_result<void> check_ready() override;
    void abort() override;
    void close() override;

    // A NOTIFY on the wake-up channel through an ordinary session: the listener's proof that notifications arrive.
    ports::async_result<void> probe_wakeup(std::string payload);

private:
    // One value of one row; error database_error when there is no row.
    asio::awaitable<base::result<query_result>> one_row(session& s, const std::string& sql, params p, base::milliseconds deadline);

    std::string schema_;
    statements sql_;
    store_deadlines deadlines_;
    session lease_;        // registration and heartbeat: never behind anything else
    session control_;      // wake-up flag, endpoints, circuits
    session claim_;
    session settle_;
    session maintenance_;
};

}  // namespace outboxd::postgres
