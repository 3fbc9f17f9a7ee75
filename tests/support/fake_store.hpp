// Role: a relay's delivery_store on a fake_database, with faults on order: the n-th call fails, is late, or succeeds without its reply.
// Promise: no thread, no socket; time passes only through the given time_source.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ports/delivery_store.hpp"
#include "ports/time_source.hpp"
#include "support/fake_database.hpp"

namespace outboxd::testkit {

/// What happens to one call.
struct store_fault {
    enum class kind {
        error,       ///< nothing is done, `code` comes back
        late,        ///< nothing is done, the call lasts `delay` and then times out
        reply_lost,  ///< it is done, but `code` comes back (after `delay`)
        slow,        ///< it is done after `delay`, the reply comes after `reply_delay` more
        done_late,   ///< `code` comes back after `delay`, and only `reply_delay` later it is done: a statement that was stuck on its way
    };
    kind what{kind::error};
    base::errc code{base::errc::database_unreachable};
    base::milliseconds delay{0};
    base::milliseconds reply_delay{0};
};

class fake_store final : public ports::delivery_store {
public:
    fake_store(fake_database& database, ports::time_source& time) : database_(database), time_(time) {}

    /// Asked before each call with its number (from 1) and its name (`claim`, `settle`, ...).
    using script = std::function<std::optional<store_fault>(int number, std::string_view name)>;
    void on_call(script s) { script_ = std::move(s); }
    /// Runs what is done late, without the relay that asked for it.
    void on_late(std::function<void(base::milliseconds in, std::function<void()> work)> f) { later_ = std::move(f); }
    /// Fails exactly the n-th call.
    void fail_call(int number, store_fault fault);
    [[nodiscard]] int calls() const noexcept { return calls_; }
    [[nodiscard]] const std::vector<std::string>& call_names() const noexcept { return names_; }
    /// What check_ready() says; nothing: ready.
    std::optional<base::error> not_ready;

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
    void close() override {}

private:
    template <class T, class Work>
    ports::async_result<T> perform(std::string_view name, Work work);
    boost::asio::awaitable<std::optional<base::error>> pass(base::milliseconds delay, base::errc code);

    fake_database& database_;
    ports::time_source& time_;
    script script_;
    std::function<void(base::milliseconds, std::function<void()>)> later_;
    int calls_{0};
    std::vector<std::string> names_;
    std::vector<std::weak_ptr<ports::alarm>> waits_;
    bool aborted_{false};
};

}  // namespace outboxd::testkit
