// Registers the relay, keeps its lease alive by a heartbeat, and notices when it is lost. Floor 4.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "relay/engine.hpp"

namespace outboxd::relay {

class lease_keeper {
public:
    lease_keeper(engine& shared, ports::relay_identity who);

    [[nodiscard]] asio::awaitable<void> run();
    void stop();
    // The lease is said to be gone: ask now.
    void doubt() {
        beat_due_ = true;
        work_->ring();
    }
    void ring() { work_->ring(); }
    // A statement failed because the schema is not what it was: no claims until its shape has been looked at and fits.
    void mistrust(const base::error& why);
    // Registered anew (also the first time).
    void on_registered(std::function<void()> handler) { on_registered_ = std::move(handler); }
    // Endpoints have to be there before claims run.
    void on_prepare(std::function<asio::awaitable<bool>()> handler) { on_prepare_ = std::move(handler); }
    // Once, when claims can run for the first time.
    void on_ready(std::function<void()> handler) { on_ready_ = std::move(handler); }
    // What the heartbeat tells others about this relay: a JSON object.
    void on_info(std::function<std::string()> handler) { on_info_ = std::move(handler); }

private:
    [[nodiscard]] asio::awaitable<bool> become_ready();
    [[nodiscard]] asio::awaitable<void> beat();
    void lose();
    void not_ready(const base::error& why);

    engine& shared_;
    ports::relay_identity who_;
    std::unique_ptr<ports::alarm> work_;
    std::function<void()> on_registered_;
    std::function<asio::awaitable<bool>()> on_prepare_;
    std::function<void()> on_ready_;
    std::function<std::string()> on_info_;
    base::boot_time next_beat_{};
    base::boot_time mistrusted_at_{};
    std::string mistrusted_;
    bool beat_due_{false};
    bool was_ready_{false};
    bool stopping_{false};
    bool up_{false};
};

}  // namespace outboxd::relay
