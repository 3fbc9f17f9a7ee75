// The slow work beside the hot path, in bounded batches: rescue, routing, the sweep for events the trigger never saw, retention, counts for the metrics. Floor 4.
#pragma once

#include <memory>

#include "relay/claimer.hpp"
#include "relay/engine.hpp"

namespace outboxd::relay {

class maintenance {
public:
    maintenance(engine& shared, claimer& claims);

    [[nodiscard]] asio::awaitable<void> run();
    void stop();
    void route_now() {
        next_route_ = base::boot_time{};
        work_->ring();
    }
    [[nodiscard]] const ports::delivery_store::counts& counts() const noexcept { return counts_; }
    // One round of what finds work (rescue, route, sweep), for `drain`. False: the database did not answer.
    [[nodiscard]] asio::awaitable<bool> find_work();

private:
    [[nodiscard]] base::boot_time next_step() const;
    [[nodiscard]] asio::awaitable<bool> rescue();
    [[nodiscard]] asio::awaitable<bool> route();
    [[nodiscard]] asio::awaitable<bool> sweep();
    [[nodiscard]] asio::awaitable<void> purge();
    [[nodiscard]] asio::awaitable<void> count();
    [[nodiscard]] asio::awaitable<void> look_for_dead_rows();

    engine& shared_;
    claimer& claims_;
    std::unique_ptr<ports::alarm> work_;
    base::boot_time next_rescue_{}, next_route_{}, next_sweep_{}, next_purge_{}, next_count_{}, next_dead_rows_{};
    // How much one statement takes on: less after a time-out, so that a server with a small statement_timeout gets there all the same.
    int rescue_batch_, sweep_batch_, purge_batch_{1000};
    ports::delivery_store::counts counts_;
    bool stopping_{false};
};

}  // namespace outboxd::relay
