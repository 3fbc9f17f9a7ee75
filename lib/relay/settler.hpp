// Writes settlements in batches: whatever is done whenever the settle session is free. Results are kept until they are written, through any outage. Floor 4.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lifecycle/settlement.hpp"
#include "ports/delivery_store.hpp"
#include "ports/time_source.hpp"
#include "relay/lane.hpp"
#include "telemetry/metrics.hpp"

namespace outboxd::relay {

namespace asio = boost::asio;

// A finished delivery on its way into the database.
struct settled {
    held_ptr row;
    lifecycle::settlement what;
    bool taken{false};  // the database has it, as a later claim of the delivery shows, although no reply said so yet
};

class settler {
public:
    settler(ports::delivery_store& store, ports::time_source& time, telemetry::metrics& metrics);

    void add(settled one);
    // After a settlement has been written (or given up because the delivery is not ours any more): `changed` says whether the database took it.
    void on_settled(std::function<void(settled& one, bool changed)> handler) { on_settled_ = std::move(handler); }
    // Results cannot be written because a table, column or function is not what it was.
    void on_schema_fault(std::function<void(const base::error&)> handler) { on_schema_fault_ = std::move(handler); }
    // The loop; returns when stop() was called and all is written, or at the deadline given there.
    [[nodiscard]] asio::awaitable<void> run();
    void stop(base::boot_time deadline);
    void hurry() { work_->ring(); }

    // A claim has brought this delivery again. True: because a result of it, whose reply is not here yet, has set it free; that result is not written again and no longer stands for the delivery.
    [[nodiscard]] bool taken_already(std::int64_t delivery, int attempts);
    // While a claim is under way no batch is written a second time: the claim may have taken a row that the first time set free.
    void claim_under_way(bool yes) noexcept { claim_under_way_ = yes; }
    [[nodiscard]] bool claim_is_under_way() const noexcept { return claim_under_way_; }

    [[nodiscard]] bool failing() const noexcept { return failing_; }
    [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size() + writing_; }
    [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }

private:
    [[nodiscard]] asio::awaitable<void> gather();
    [[nodiscard]] std::vector<settled> next_batch();
    [[nodiscard]] asio::awaitable<bool> write(std::vector<settled>& batch);
    [[nodiscard]] asio::awaitable<void> pause_after_failure(int failures);
    [[nodiscard]] asio::awaitable<void> wait_for_claim();
    void report(std::vector<settled>& batch, const std::vector<std::int64_t>& changed, bool repeated);

    ports::delivery_store& store_;
    ports::time_source& time_;
    telemetry::metrics& metrics_;
    std::unique_ptr<ports::alarm> work_;
    std::function<void(settled&, bool)> on_settled_;
    std::function<void(const base::error&)> on_schema_fault_;
    std::deque<settled> waiting_;
    std::vector<settled>* under_way_{nullptr};  // the batch that run() is writing
    std::size_t writing_{0};
    bool urgent_{false};      // somebody waits for this settlement (ordering key): no gathering
    bool claim_under_way_{false};
    bool failing_{false};
    bool stopping_{false};
    base::boot_time deadline_{base::boot_time::max()};
    std::string last_error_;
};

}  // namespace outboxd::relay
