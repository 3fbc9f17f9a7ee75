// Keeps the endpoints in step with outbox.endpoint: a change takes effect within a second, without restart; and tells the table which endpoints fail, so that those that only fail are disabled. Floor 4.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "relay/claimer.hpp"
#include "relay/engine.hpp"

namespace outboxd::relay {

class endpoint_keeper {
public:
    endpoint_keeper(engine& shared, claimer& claims);

    [[nodiscard]] asio::awaitable<void> run();
    // Every few seconds: what the attempts since then say about the endpoints' health. Writes changes only.
    [[nodiscard]] asio::awaitable<void> watch_health();
    void stop();
    void refresh() {
        refresh_due_ = true;
        work_->ring();
    }
    // Reads all endpoints now; false: the database did not answer.
    [[nodiscard]] asio::awaitable<bool> load();
    // A receiver said that it wants no more (410, or `webhook-delivery: disable`).
    void disable(std::string name, std::string reason);

private:
    [[nodiscard]] asio::awaitable<void> look();
    [[nodiscard]] asio::awaitable<void> write_disabled(std::string name, std::string reason);
    void adopt(const ports::shared_state& state);
    [[nodiscard]] std::vector<ports::endpoint_note> health_news();

    engine& shared_;
    claimer& claims_;
    std::unique_ptr<ports::alarm> work_;
    std::unique_ptr<ports::alarm> health_alarm_;
    std::string digest_;
    bool refresh_due_{false};
    bool stopping_{false};
    base::boot_time last_load_{};
    base::milliseconds spacing_{0};          // between two loads; grows while changes keep coming
    std::set<std::string> stopped_here_;  // disabled by this relay, and not read back yet
};

}  // namespace outboxd::relay
