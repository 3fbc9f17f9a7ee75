// Wake-ups by LISTEN on a connection of its own. Floor 4 (postgres): proves itself by notifications of its own, costs next to nothing while idle, and comes back after every loss with a catch-up.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <random>
#include <string>

#include "ports/wakeup.hpp"
#include "postgres/connection.hpp"
#include "postgres/session_state.hpp"

namespace outboxd::postgres {

struct listener_times {
    base::milliseconds connect{10'000};
    base::milliseconds probe_every{15'000};
    base::milliseconds probe_wait{3'000};        // for our own notification to arrive
    base::milliseconds deaf_probe_every{60'000};  // a pooler that swallows notifications is not asked all the time
};

class notify_listener final : public ports::wakeup {
public:
    // Sends a NOTIFY with this payload through an ordinary session.
    using prober = std::function<asio::awaitable<base::result<void>>(std::string payload)>;

    notify_listener(asio::any_io_executor executor, connect_options options, std::string schema, prober probe, listener_times times = {});

    void on_wakeup(ports::wakeup_handler handler) override { handler_ = std::move(handler); }
    [[nodiscard]] bool listening() const noexcept override { return listening_; }

    // The loop; returns after stop(). To be spawned in the application's group.
    asio::awaitable<void> run();
    void stop();

private:
    using time_point = std::chrono::steady_clock::time_point;
    asio::awaitable<bool> connect_and_listen();
    asio::awaitable<void> listen_until_lost();
    asio::awaitable<base::result<bool>> probe_once();
    asio::awaitable<bool> take_until(time_point end, bool for_probe);
    void take(const std::string& payload);
    void report(bool listening, std::string_view why);
    void down(const base::error& why, session_event event);

    connection connection_;
    connect_options options_;
    std::string schema_;
    std::string channel_;
    prober probe_;
    listener_times times_;
    ports::wakeup_handler handler_;
    session_state state_;
    asio::steady_timer pause_;
    base::milliseconds next_pause_{0};
    std::string expected_;   // payload of the probe under way
    std::string identity_;   // tells our probes from those of other relays
    std::uint64_t probes_{0};
    bool heard_{false};
    bool listening_{false};
    bool told_{false};       // listening or deaf was reported at least once
    bool stopping_{false};
    std::minstd_rand generator_{std::random_device{}()};
};

}  // namespace outboxd::postgres
