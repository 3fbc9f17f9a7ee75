// The operator's store on PostgreSQL: one session, statements one after another, opened when first needed. Floor 4 (postgres).
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <list>
#include <memory>
#include <string>

#include "ports/operator_store.hpp"
#include "postgres/connection.hpp"
#include "postgres/operator_statements.hpp"

namespace outboxd::postgres {

struct operator_store_options {
    connect_options connect;
    std::string schema{"outbox"};
    base::milliseconds deadline{30'000};  // of each statement; connecting included
    std::size_t max_waiting{16};          // callers behind the one that is served; more are refused as busy
};

class pg_operator_store final : public ports::operator_store {
public:
    pg_operator_store(asio::any_io_executor executor, operator_store_options options);
    ~pg_operator_store() override;

    // Ends a running statement with `cancelled` and refuses later ones, so that the io_context runs dry.
    void close() noexcept;

    ports::async_result<ports::status_report> status() override;
    ports::async_result<std::int64_t> find_event(std::string text) override;
    ports::async_result<std::vector<ports::delivery_facts>> why(std::int64_t event) override;
    ports::async_result<std::vector<ports::event_view>> list_events(ports::event_filter filter) override;
    ports::async_result<ports::event_view> show_event(std::int64_t event) override;
    ports::async_result<ports::event_body> body(std::int64_t event) override;
    ports::async_result<std::vector<ports::delivery_view>> list_deliveries(ports::delivery_filter filter) override;
    ports::async_result<std::vector<ports::attempt_view>> attempts_of_event(std::int64_t event, int limit) override;
    ports::async_result<std::int64_t> event_of_delivery(std::int64_t delivery) override;
    ports::async_result<std::vector<ports::circuit_view>> list_circuits() override;
    ports::async_result<std::vector<ports::relay_view>> list_relays() override;
    ports::async_result<ports::retry_reply> retry(std::int64_t delivery) override;
    ports::async_result<ports::retry_reply> cancel(std::int64_t delivery) override;
    ports::async_result<ports::retry_reply> unblock(std::int64_t delivery) override;
    ports::async_result<ports::replay_page> replay_candidates(ports::replay_filter filter) override;
    ports::async_result<std::vector<ports::replay_row>> replay(std::vector<ports::replay_target> targets) override;
    ports::async_result<std::string> copy_event(std::int64_t event, std::optional<std::string> endpoint) override;
    ports::async_result<std::vector<ports::endpoint_view>> list_endpoints() override;
    ports::async_result<ports::endpoint_view> show_endpoint(std::string name) override;
    ports::async_result<void> add_endpoint(ports::new_endpoint what) override;
    ports::async_result<std::string> endpoint_settings(std::string name) override;
    ports::async_result<void> change_endpoint(std::string name, ports::endpoint_change change) override;
    ports::async_result<void> set_enabled(std::string name, bool enabled, std::string reason) override;
    ports::async_result<void> set_paused(std::string name, bool paused) override;
    ports::async_result<removal> remove_endpoint(std::string name) override;
    ports::async_result<void> rotate_secret(std::string name, base::secret fresh, base::milliseconds old_ones_for) override;
    ports::async_result<ports::endpoint_row> endpoint_for_test(std::string name) override;
    ports::async_result<ports::purge_counts> purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts, int batch) override;

private:
    asio::awaitable<base::result<query_result>> ask(const std::string& sql, params p);
    asio::awaitable<base::result<query_result>> ask_in_turn(const std::string& sql, params p);
    ports::async_result<ports::retry_reply> ask_for_reply(const std::string& sql, std::int64_t delivery);
    asio::awaitable<base::result<void>> change_one(const std::string& sql, params p, std::string name);
    void let_next_in() noexcept;

    operator_store_options options_;
    operator_statements sql_;
    connection connection_;
    asio::any_io_executor executor_;
    std::list<std::shared_ptr<asio::steady_timer>> waiting_;
    bool busy_{false};
    bool closed_{false};
};

}  // namespace outboxd::postgres
