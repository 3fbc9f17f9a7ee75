#include "relay/lease_keeper.hpp"

#include <algorithm>

#include "relay/lane_setup.hpp"
#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto retry_pause = milliseconds{500};
// The same fault from a schema that fits would only be said again and again.
constexpr auto trust_pause = seconds{60};

}  // namespace

lease_keeper::lease_keeper(engine& shared, ports::relay_identity who) : shared_(shared), who_(std::move(who)), work_(shared.time.make_alarm()) {}

void lease_keeper::stop() {
    stopping_ = true;
    work_->ring();
}

asio::awaitable<void> lease_keeper::run() {
    while (!stopping_) {
        if (!shared_.ready) {
            if (shared_.relay_id != 0 && shared_.time.now() >= next_beat_) co_await beat();  // the results that wait are worth a lease
            const bool ready = co_await become_ready();
            if (!ready && !stopping_) {
                const auto until = shared_.time.now() + retry_pause;
                while (!stopping_ && shared_.time.now() < until) co_await work_->wait(until);
            }
            continue;
        }
        if (beat_due_ || shared_.time.now() >= next_beat_) {
            co_await beat();
            continue;
        }
        co_await work_->wait(next_beat_);
    }
}

asio::awaitable<bool> lease_keeper::become_ready() {
    auto usable = co_await shared_.store.check_ready();
    if (!usable) {
        not_ready(usable.error());
        co_return false;
    }
    shared_.metrics.database_up(true);
    if (!up_) {
        up_ = true;
        telemetry::log(telemetry::level::info, "database_up", "the database is there and fits");
    }
    const bool prepared = co_await on_prepare_();
    if (!prepared || stopping_) co_return false;
    if (shared_.relay_id == 0) {
        const auto sent = shared_.time.now();
        auto mine = co_await shared_.store.register_relay(who_, shared_.lease.length());
        if (!mine) {
            not_ready(mine.error());
            co_return false;
        }
        shared_.relay_id = mine->relay;
        shared_.epoch = mine->epoch;
        shared_.lease.renewed(sent);
        beat_due_ = true;
    }
    shared_.ready = true;
    shared_.not_ready_reason.clear();
    on_registered_();
    if (!was_ready_) {
        was_ready_ = true;
        on_ready_();
    }
    co_return true;
}

void lease_keeper::not_ready(const base::error& why) {
    if (up_ || shared_.not_ready_reason != why.text) {
        if (why.code != base::errc::cancelled) {
            telemetry::log_limited(telemetry::level::warn, "not_ready", "", "waiting: " + why.text, {{"error_code", base::to_string(why.code)}});
        }
    }
    up_ = false;
    shared_.ready = false;
    shared_.not_ready_reason = why.text;
    shared_.metrics.database_up(false);
}

void lease_keeper::mistrust(const base::error& why) {
    const auto now = shared_.time.now();
    if (!shared_.ready || (why.text == mistrusted_ && now - mistrusted_at_ < trust_pause)) return;
    mistrusted_ = why.text;
    mistrusted_at_ = now;
    // The line comes from the look at the shape, which names what is wrong better than a statement can.
    shared_.ready = false;
    shared_.not_ready_reason = why.text;
    shared_.metrics.database_up(false);
    work_->ring();
}

asio::awaitable<void> lease_keeper::beat() {
    beat_due_ = false;
    ports::beat_request request;
    request.relay = shared_.relay_id;
    request.lease = shared_.lease.length();
    request.in_flight = shared_.lanes.in_flight();
    request.listening = shared_.listening;
    if (on_info_) request.info = on_info_();
    const auto sent = shared_.time.now();
    auto reply = co_await shared_.store.beat(std::move(request));
    const auto now = shared_.time.now();
    if (!reply) {
        // The lease runs on; requests stop by themselves when it no longer covers them.
        next_beat_ = now + std::min<base::milliseconds>(seconds{1}, shared_.lease.heartbeat_interval());
        if (!shared_.ready) co_return;  // the reason is known
        if (reply.error().code == base::errc::database_schema) {
            not_ready(reply.error());
        } else {
            up_ = false;
            shared_.metrics.database_up(false);
        }
        co_return;
    }
    shared_.server_clock(reply->now, sent);
    if (!up_ && shared_.ready) {
        up_ = true;
        shared_.metrics.database_up(true);
        telemetry::log(telemetry::level::info, "database_up", "the database answers again");
    }
    if (!reply->alive) {
        lose();
        co_return;
    }
    // Who cannot listen hears only here of relays that come and go, with whom it shares the endpoints' rates.
    const auto interval = shared_.lease.heartbeat_interval();
    next_beat_ = sent + (shared_.listening ? interval : std::min<base::milliseconds>(interval, seconds{2}));
    shared_.lease.renewed(sent);
    if (reply->live_relays != shared_.live_relays) {
        shared_.live_relays = reply->live_relays;
        for (auto& [name, l] : shared_.lanes.lanes()) apply_rate(shared_, *l);
    }
    shared_.lanes.lease_renewed();
}

// Another relay has rescued our rows: what waits here is theirs. What is on the wire ends as it ends; successes are still written.
void lease_keeper::lose() {
    telemetry::log(telemetry::level::error, "lease_lost", "this relay lost its lease; it drops its claims and registers anew", {{"relay", shared_.relay_id}});
    shared_.metrics.lease_lost();
    shared_.lease.lost();
    for (auto& [name, l] : shared_.lanes.lanes()) {
        for (auto& row : shared_.lanes.withdraw(*l)) shared_.lanes.forget(row->row.delivery);
    }
    shared_.relay_id = 0;
    shared_.ready = false;
    shared_.not_ready_reason = "registering anew after a lost lease";
}

}  // namespace outboxd::relay
