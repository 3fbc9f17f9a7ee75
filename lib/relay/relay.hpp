// One relay: the parts of this room put together, started, drained and stopped. Floor 4. Everything runs on one single-threaded executor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "relay/circuits.hpp"
#include "relay/claimer.hpp"
#include "relay/delivery_task.hpp"
#include "relay/endpoint_keeper.hpp"
#include "relay/engine.hpp"
#include "relay/lease_keeper.hpp"
#include "relay/maintenance.hpp"

namespace outboxd::relay {

struct parts {
    asio::any_io_executor executor;
    std::shared_ptr<const config::config> settings;
    ports::delivery_store& store;
    ports::wakeup* wakeup{nullptr};  // null: polling alone
    ports::https_sender& sender;
    ports::time_source& time;
    telemetry::metrics& metrics;
    ports::relay_identity who;
    // Run each time before claims may start, once the database fits: brings the file's endpoints in step. May be empty.
    std::function<asio::awaitable<base::result<void>>()> before_ready;
};

// What `drain` prints. remaining: not final, retries included; scheduled: deliver_at ahead.
struct drain_tally {
    std::int64_t published{0};
    std::int64_t retried{0};
    std::int64_t failed{0};
    bool database_answered{true};
};

// What health and `status` tell about this process.
struct view {
    bool ready{false};
    bool database_up{false};
    bool claiming{false};
    bool listening{false};
    bool stopping{false};
    std::string reason;                  // why not ready
    double last_claim_age_seconds{-1};   // -1: none yet
    int in_flight{0};
    std::int64_t in_flight_bytes{0};
    int queued{0};
    std::size_t settlements_waiting{0};
    std::int64_t relay_id{0};
    ports::delivery_store::counts counts;
};

class relay {
public:
    explicit relay(parts p);
    ~relay();

    // Runs until stop(); returns when everything is handed back and written. True: all of it was.
    [[nodiscard]] asio::awaitable<bool> run();
    // Delivers what is due, then stops by itself. max_passes 0: until a pass finds nothing.
    [[nodiscard]] asio::awaitable<drain_tally> drain(int max_passes, base::milliseconds timeout);

    // First signal: claim no more, finish what is on the wire, hand back, settle.
    void stop();
    // Second signal: abort what is on the wire, hand back.
    void abort();
    void reload(std::shared_ptr<const config::config> settings);
    void on_ready(std::function<void()> handler) { on_ready_ = std::move(handler); }
    [[nodiscard]] view look() const;

private:
    [[nodiscard]] asio::awaitable<bool> prepare();
    void start(held_ptr row);
    [[nodiscard]] asio::awaitable<void> work(held_ptr row);
    void conclude(const held& row, const attempt_result& result);
    void log_attempt(const held& row, const attempt_result& result);
    void settled_one(settled& one, bool changed);
    [[nodiscard]] asio::awaitable<void> keep_dispatching();
    [[nodiscard]] asio::awaitable<void> shut_down();
    [[nodiscard]] asio::awaitable<void> give_up_retiring(base::boot_time until);
    void wire_parts();
    void launch();
    void woken(std::string_view payload);
    [[nodiscard]] std::string info() const;
    [[nodiscard]] bool all_quiet() const;

    engine shared_;
    ports::wakeup* wakeup_;
    claimer claims_;
    circuits circuits_;
    endpoint_keeper endpoints_;
    lease_keeper lease_;
    maintenance maintenance_;
    task_group attempts_;
    task_group writing_;
    std::unique_ptr<ports::alarm> stop_alarm_;
    std::unique_ptr<ports::alarm> dispatch_alarm_;
    std::function<void()> on_ready_;
    std::function<asio::awaitable<base::result<void>>()> before_ready_;
    drain_tally tally_;
    bool draining_{false};
    bool aborted_{false};
    bool retired_{false};
    bool all_written_{true};
};

}  // namespace outboxd::relay
