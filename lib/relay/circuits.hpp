// Keeps the lanes' circuits in step with outbox.circuit, which all relays share: trips, probes, results. Healthy lanes cause no write. Floor 4.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "relay/claimer.hpp"
#include "relay/engine.hpp"

namespace outboxd::relay {

class circuits {
public:
    circuits(engine& shared, claimer& claims);

    [[nodiscard]] asio::awaitable<void> run();
    void stop();
    // The table changed (wake-up) or may have.
    void refresh() {
        refresh_due_ = true;
        work_->ring();
    }
    // What an attempt said about its lane.
    void observe(lane& l, lifecycle::circuit_event event, bool probe, std::string_view error);
    // A granted probe was not used for an attempt (its row was final without sending): nothing was learned.
    [[nodiscard]] std::size_t not_closed() const noexcept { return not_closed_.size(); }

private:
    [[nodiscard]] asio::awaitable<void> load();
    [[nodiscard]] asio::awaitable<void> trip(std::string name, std::string error);
    [[nodiscard]] asio::awaitable<void> report(std::string name, bool ok, std::string error);
    [[nodiscard]] asio::awaitable<void> ask_for_probes();
    void adopt(lane& l, lifecycle::circuit_state state, base::milliseconds opens_for);
    [[nodiscard]] base::boot_time next_moment(base::boot_time now);

    engine& shared_;
    claimer& claims_;
    std::unique_ptr<ports::alarm> work_;
    std::set<std::string> not_closed_;
    std::set<std::string> reporting_;  // a write about this lane is on its way: what a load says is older
    base::boot_time next_load_{};
    bool refresh_due_{true};
    bool stopping_{false};
};

}  // namespace outboxd::relay
