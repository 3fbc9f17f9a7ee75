// Role: one relay process on fakes: the real relay::relay with its own event loop, clock, store, sender and wake-ups, started, stopped, frozen and killed by a test.
// Promise: no thread, no socket, no real time; what the process does is told to the watch.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay/relay.hpp"
#include "support/fake_sender.hpp"
#include "support/fake_store.hpp"
#include "support/virtual_time.hpp"
#include "support/watched_store.hpp"

namespace outboxd::testkit {

struct process_setup {
    int number{1};
    std::uint64_t seed{1};
    base::boot_time now{};
    bool wakeups{true};
    /// A layer between the relay and its watched store, for relays that are broken on purpose; may be empty.
    std::function<std::unique_ptr<store_layer>(ports::delivery_store&)> layer;
};

class relay_process final : public ports::wakeup {
public:
    relay_process(fake_database& database, relay_watch& watch, std::shared_ptr<const config::config> settings, process_setup setup);
    ~relay_process() override;

    void run();
    void drain(int max_passes, base::milliseconds timeout);
    void stop();
    void abort();
    void reload(std::shared_ptr<const config::config> settings) { relay_->reload(std::move(settings)); }
    /// kill -9: nothing of it runs any more.
    void kill();
    /// SIGSTOP and SIGCONT: its clock stands for it until it goes on.
    void freeze() { frozen_ = true; }
    void thaw() { frozen_ = false; }
    [[nodiscard]] bool frozen() const noexcept { return frozen_; }

    /// The moment when it wants to do something next.
    [[nodiscard]] base::boot_time next() const { return frozen_ || !running() ? base::boot_time::max() : time.next(); }
    /// Lets it do everything that is due at `now`.
    void advance_to(base::boot_time now);

    [[nodiscard]] bool running() const noexcept { return relay_ != nullptr && !ended_; }
    [[nodiscard]] bool ended() const noexcept { return ended_; }
    /// run() or drain() is over and no coroutine is left behind.
    [[nodiscard]] bool nothing_left() const noexcept { return ended_ && context_.stopped(); }
    [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
    [[nodiscard]] const relay::relay& engine() const noexcept { return *relay_; }

    void on_wakeup(ports::wakeup_handler handler) override { handler_ = std::move(handler); }
    [[nodiscard]] bool listening() const noexcept override { return listening_; }
    /// A notification reaches the process, at once or when it is thawed.
    void notify(std::string payload);

private:
    // Only the context itself may end its handlers before the objects they use are gone.
    struct killable : boost::asio::io_context {
        killable() : io_context(1) {}
        using boost::asio::execution_context::shutdown;
    };
    boost::asio::awaitable<void> live();
    boost::asio::awaitable<void> live_until_drained(int max_passes, base::milliseconds timeout);
    void ended_with(const std::exception_ptr& error);

    killable context_;

public:
    tests::virtual_time time;
    fake_store store;
    fake_sender sender;

private:
    watched_store watched_;
    std::unique_ptr<store_layer> layer_;
    telemetry::metrics metrics_;
    relay_watch& watch_;
    int number_;
    ports::wakeup_handler handler_;
    std::vector<std::string> waiting_notes_;
    std::unique_ptr<relay::relay> relay_;
    bool listening_{false};
    bool frozen_{false};
    bool ended_{false};
    std::string failure_;
};

}  // namespace outboxd::testkit
