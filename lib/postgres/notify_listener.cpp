#include "postgres/notify_listener.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "postgres/statements.hpp"
#include "telemetry/log.hpp"

namespace outboxd::postgres {

namespace {

using steady = std::chrono::steady_clock;

base::milliseconds until(steady::time_point end) { return std::max(std::chrono::ceil<base::milliseconds>(end - steady::now()), base::milliseconds{0}); }

std::string random_identity() {
    std::random_device device;
    return std::to_string(device()) + std::to_string(device());
}

connect_options for_listening(connect_options options) {
    options.purpose = "listen";
    return options;
}

}  // namespace

notify_listener::notify_listener(asio::any_io_executor executor, connect_options options, std::string schema, prober probe, listener_times times)
    : connection_(executor),
      options_(for_listening(std::move(options))),
      schema_(std::move(schema)),
      channel_(wake_channel(schema_)),
      probe_(std::move(probe)),
      times_(times),
      pause_(executor),
      identity_(random_identity()) {}

void notify_listener::report(bool listening, std::string_view why) {
    if (told_ && listening == listening_) return;
    told_ = true;
    listening_ = listening;
    if (listening) {
        telemetry::log(telemetry::level::info, "listening", "wake-ups arrive", {{"channel", channel_}});
    } else {
        telemetry::log(telemetry::level::warn, "not_listening", why, {{"channel", channel_}});
    }
    if (handler_) handler_(listening ? "listening" : "deaf");
}

void notify_listener::down(const base::error& why, session_event event) {
    const auto next = state_.step(event, std::uniform_real_distribution<double>{0, 1}(generator_));
    next_pause_ = next.pause;
    connection_.close();
    if (!stopping_) report(false, "polling until wake-ups are back: " + why.text);
}

asio::awaitable<bool> notify_listener::connect_and_listen() {
    (void)state_.step(session_event::wanted, 0);
    auto opened = co_await connection_.open(options_, times_.connect);
    if (stopping_) co_return false;
    if (!opened) {
        down(opened.error(), session_event::connect_failed);
        co_return false;
    }
    const auto text = "LISTEN " + quote_identifier(channel_);
    auto listened = co_await connection_.query(text, {}, times_.connect);
    if (stopping_) co_return false;
    if (!listened) {
        down(listened.error(), session_event::connect_failed);
        co_return false;
    }
    (void)state_.step(session_event::connected, 0);
    co_return true;
}

// One notification of any relay. Our own probe is the proof that they arrive; others' probes mean nothing.
void notify_listener::take(const std::string& payload) {
    if (!payload.starts_with("probe:")) {
        if (handler_) handler_(payload);
        return;
    }
    if (payload != expected_) return;
    heard_ = true;
    expected_.clear();
}

// Passes notifications on until `end` (true), or the probe was heard (true), or the connection is lost (false).
asio::awaitable<bool> notify_listener::take_until(time_point end, bool for_probe) {
    for (;;) {
        if (for_probe && heard_) co_return true;
        const auto left = until(end);
        if (left.count() == 0) co_return true;
        auto next = co_await connection_.next_notification(left);
        if (stopping_) co_return false;
        if (next) {
            if (next->channel == channel_) take(next->payload);
            continue;
        }
        if (next.error().code == base::errc::timeout) co_return true;
        down(next.error(), session_event::lost);
        co_return false;
    }
}

// true: heard, false: deaf; an error when the probe could not even be sent.
asio::awaitable<base::result<bool>> notify_listener::probe_once() {
    expected_ = "probe:" + identity_ + "-" + std::to_string(++probes_);
    heard_ = false;
    const auto payload = expected_;
    auto sent = co_await probe_(payload);
    if (!sent) co_return sent.error();
    const bool still_there = co_await take_until(steady::now() + times_.probe_wait, true);
    if (!still_there) co_return base::make_error(base::errc::database_unreachable, "the listening connection was lost");
    co_return heard_;
}

asio::awaitable<void> notify_listener::listen_until_lost() {
    if (handler_) handler_("any");  // whatever was committed while nobody listened
    for (;;) {
        auto heard = co_await probe_once();
        if (stopping_ || !connection_.is_open()) co_return;
        auto pause = times_.probe_every;
        if (heard) {
            if (*heard) {
                (void)state_.step(session_event::served, 0);
                // Heard, so this session is our own and waits by its nature: a limit for idle ones would only make it come and go.
                auto unlimited = co_await connection_.query(no_idle_limit, {}, times_.connect);
                if (stopping_) co_return;
                if (!unlimited && !connection_.is_open()) {
                    down(unlimited.error(), session_event::lost);
                    co_return;
                }
            }
            report(*heard, "notifications do not arrive (a transaction pooler?): polling; give database.listen_url a direct address");
            if (!*heard) pause = times_.deaf_probe_every;
        }
        const bool still_there = co_await take_until(steady::now() + pause, false);
        if (!still_there) co_return;
    }
}

asio::awaitable<void> notify_listener::run() {
    while (!stopping_) {
        const bool connected = co_await connect_and_listen();
        if (connected) co_await listen_until_lost();
        if (stopping_) break;
        pause_.expires_after(next_pause_);
        co_await pause_.async_wait(asio::as_tuple(asio::use_awaitable));
        (void)state_.step(session_event::pause_over, 0);
    }
    connection_.close();
    listening_ = false;
}

void notify_listener::stop() {
    stopping_ = true;
    pause_.cancel();
    connection_.close();
}

}  // namespace outboxd::postgres
