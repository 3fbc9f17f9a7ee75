#include "relay/maintenance.hpp"

#include <algorithm>

#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int largest_rescue = 1000;
constexpr int smallest_rescue = 20;
constexpr int route_batch = 500;
constexpr int largest_sweep = 20'000;
constexpr int smallest_sweep = 500;
constexpr int largest_purge = 5000;
constexpr int smallest_purge = 50;
constexpr auto count_interval = seconds{5};
constexpr auto route_interval = seconds{5};
constexpr auto sweep_interval = seconds{10};
constexpr auto purge_interval = seconds{60};
constexpr auto dead_rows_interval = seconds{30};
constexpr auto dead_rows_said_again = seconds{300};

int grown(int batch, int largest) { return std::min(largest, batch + batch / 4 + 1); }

bool quiet(const base::error& e) { return e.code == base::errc::cancelled; }

// One reason is one line, however many steps meet it in the same moment.
void report(std::string_view what, const base::error& e) {
    const std::string_view reason = e.sqlstate.empty() ? base::to_string(e.code) : std::string_view{e.sqlstate};
    if (!quiet(e)) telemetry::log_limited(telemetry::level::warn, "maintenance_failed", reason, e.text, {{"step", what}});
}

}  // namespace

maintenance::maintenance(engine& shared, claimer& claims) : shared_(shared), claims_(claims), work_(shared.time.make_alarm()), rescue_batch_(largest_rescue), sweep_batch_(largest_sweep) {}

void maintenance::stop() {
    stopping_ = true;
    work_->ring();
}

asio::awaitable<void> maintenance::run() {
    while (!stopping_) {
        if (!shared_.ready) {
            co_await work_->wait(shared_.time.now() + milliseconds{200});
            continue;
        }
        if (shared_.time.now() >= next_rescue_) co_await rescue();
        if (!stopping_ && shared_.time.now() >= next_route_) co_await route();
        if (!stopping_ && shared_.time.now() >= next_sweep_) co_await sweep();
        if (!stopping_ && shared_.time.now() >= next_count_) co_await count();
        if (!stopping_ && shared_.time.now() >= next_purge_) co_await purge();
        if (!stopping_ && shared_.time.now() >= next_dead_rows_) co_await look_for_dead_rows();
        if (stopping_) co_return;
        co_await work_->wait(next_step());
    }
}

base::boot_time maintenance::next_step() const { return std::min({next_rescue_, next_route_, next_sweep_, next_count_, next_purge_, next_dead_rows_}); }

asio::awaitable<bool> maintenance::find_work() {
    const bool rescued = co_await rescue();
    const bool routed = co_await route();
    const bool swept = co_await sweep();
    const bool all = rescued && routed && swept;
    co_return all;
}

asio::awaitable<bool> maintenance::rescue() {
    const auto interval = std::clamp<base::milliseconds>(shared_.lease.length() / 8, milliseconds{200}, seconds{5});
    next_rescue_ = shared_.time.now() + interval;
    auto rows = co_await shared_.store.rescue(shared_.relay_id, shared_.settings->relay.max_rescues, rescue_batch_);
    if (!rows) {
        rescue_batch_ = std::max(smallest_rescue, rescue_batch_ / 2);
        report("rescue", rows.error());
        co_return false;
    }
    const bool full = static_cast<int>(rows->size()) >= rescue_batch_;
    rescue_batch_ = grown(rescue_batch_, largest_rescue);
    if (rows->empty()) co_return true;
    shared_.metrics.rescued(static_cast<std::int64_t>(rows->size()));
    for (const auto& row : *rows) {
        shared_.metrics.attempt(row.outcome == "failed" ? lifecycle::outcome::failed : lifecycle::outcome::lost, 0, 0);
    }
    telemetry::log(telemetry::level::warn, "rescued", "deliveries of a dead relay were taken back", {{"count", static_cast<std::int64_t>(rows->size())}, {"dead_relay", rows->front().dead_relay}});
    if (full) next_rescue_ = shared_.time.now();
    claims_.wake_all();
    co_return true;
}

asio::awaitable<bool> maintenance::route() {
    next_route_ = shared_.time.now() + route_interval;
    auto routed = co_await shared_.store.route(route_batch, shared_.settings->routing.unrouted_grace);
    if (!routed) {
        report("route", routed.error());
        co_return false;
    }
    if (*routed > 0) {
        next_route_ = shared_.time.now();
        claims_.wake_all();
    }
    co_return true;
}

asio::awaitable<bool> maintenance::sweep() {
    next_sweep_ = shared_.time.now() + sweep_interval;
    auto found = co_await shared_.store.sweep(sweep_batch_);
    if (!found) {
        sweep_batch_ = std::max(smallest_sweep, sweep_batch_ / 2);
        report("sweep", found.error());
        co_return false;
    }
    sweep_batch_ = grown(sweep_batch_, largest_sweep);
    if (*found > 0) {
        telemetry::log(telemetry::level::info, "swept", "events that the trigger never saw were fanned out", {{"count", *found}});
        claims_.wake_all();
    }
    co_return true;
}

// Batches shrink when the database is slow to delete and grow back slowly, so that retention is never in the way.
asio::awaitable<void> maintenance::purge() {
    next_purge_ = shared_.time.now() + purge_interval;
    const auto& keep = shared_.settings->retention;
    const auto begun = shared_.time.now();
    auto removed = co_await shared_.store.purge(keep.published, keep.failed, keep.attempts, purge_batch_);
    const auto took = shared_.time.now() - begun;
    if (!removed) {
        report("retention", removed.error());
        purge_batch_ = std::max(smallest_purge, purge_batch_ / 2);
        co_return;
    }
    purge_batch_ = took > seconds{1} ? std::max(smallest_purge, purge_batch_ / 2) : grown(purge_batch_, largest_purge);
    if (*removed >= purge_batch_ / 2) next_purge_ = shared_.time.now() + std::max<base::boot_clock::duration>(milliseconds{500}, took * 4);
}

asio::awaitable<void> maintenance::count() {
    next_count_ = shared_.time.now() + count_interval;
    const auto begun = shared_.time.now();
    auto counted = co_await shared_.store.count();
    if (!counted) {
        report("count", counted.error());
        co_return;
    }
    counts_ = *counted;
    shared_.metrics.deliveries(counts_.due, counts_.scheduled, counts_.claimed, counts_.failed, counts_.unrouted, counts_.oldest_due_seconds);
    shared_.metrics.blocked_keys(counts_.blocked_keys);
    // Counting may use a hundredth of the time, no more.
    next_count_ = std::max(next_count_, shared_.time.now() + (shared_.time.now() - begun) * 100);
}

// A queue's tables live by vacuum: one transaction that stays open makes every claim walk over all that was delivered since.
asio::awaitable<void> maintenance::look_for_dead_rows() {
    next_dead_rows_ = shared_.time.now() + dead_rows_interval;
    auto found = co_await shared_.store.find_dead_rows();
    if (!found) {
        report("dead_rows", found.error());
        co_return;
    }
    const auto& pile = *found;
    if (!pile) co_return;
    next_dead_rows_ = shared_.time.now() + dead_rows_said_again;
    telemetry::log(telemetry::level::warn, "dead_rows", "row versions pile up that vacuum cannot remove, and claims become slow; held by " + pile->held_by,
                   {{"table", std::string_view{pile->table}}, {"rows", pile->rows}, {"held_by", std::string_view{pile->held_by}}});
}

}  // namespace outboxd::relay
