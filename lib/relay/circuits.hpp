// Keeps the lanes' circuits in step with outbox.circuit, which all relays share: trips, probes, results. Healthy lanes cause no write. Floor 4.
#pragma once

#include <memory>
#include <optional>
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
    // Reads the table now, so that a relay that starts while circuits are open sends nothing; false: the database did not answer.
    [[nodiscard]] asio::awaitable<bool> load();
    // What an attempt said about its lane. `retry_in`: after a probe that proved nothing, how long the receiver wants to be left alone.
    void observe(lane& l, lifecycle::circuit_event event, bool probe, std::string_view error, std::optional<base::milliseconds> retry_in);
    // A probe's row was final without being sent: the lane's next row is the probe.
    void probe_not_sent(lane& l);
    [[nodiscard]] std::size_t not_closed() const noexcept { return not_closed_.size(); }

private:
    [[nodiscard]] asio::awaitable<void> trip(std::string name, std::string error);
    [[nodiscard]] asio::awaitable<void> report(std::string name, std::optional<bool> ok, std::string error);
    [[nodiscard]] asio::awaitable<void> ask_for_probes();
    [[nodiscard]] asio::awaitable<bool> ask_for_probe(std::string name);
    void start_report(lane& l, std::optional<bool> ok);
    void give_back_unused(lane& l, base::boot_time now);
    void adopt(lane& l, lifecycle::circuit_state state, base::milliseconds opens_for);
    [[nodiscard]] base::boot_time next_moment(base::boot_time now);

    engine& shared_;
    claimer& claims_;
    std::unique_ptr<ports::alarm> work_;
    std::set<std::string> not_closed_;
    std::multiset<std::string> reporting_;  // a write about this lane is on its way: what a load says is older
    base::boot_time next_load_{};
    bool refresh_due_{true};
    bool stopping_{false};
};

}  // namespace outboxd::relay
