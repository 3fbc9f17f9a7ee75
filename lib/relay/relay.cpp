#include "relay/relay.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "relay/hand_back.hpp"
#include "relay/lane_setup.hpp"
#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto abort_grace = seconds{2};
constexpr auto settle_grace = seconds{5};
constexpr auto claim_grace = seconds{3};
constexpr auto retire_grace = seconds{2};

}  // namespace

relay::relay(parts p)
    : shared_(p.executor, p.settings, p.store, p.sender, p.time, p.metrics),
      wakeup_(p.wakeup),
      claims_(shared_),
      circuits_(shared_, claims_),
      endpoints_(shared_, claims_),
      lease_(shared_, p.who),
      maintenance_(shared_, claims_),
      attempts_(p.executor, p.time),
      writing_(p.executor, p.time),
      stop_alarm_(p.time.make_alarm()),
      dispatch_alarm_(p.time.make_alarm()),
      before_ready_(std::move(p.before_ready)) {
    wire_parts();
}

relay::~relay() = default;

void relay::wire_parts() {
    const auto broken = [](std::string_view what) { telemetry::log(telemetry::level::error, "invariant_broken", what); };
    shared_.group.on_failure(broken);
    attempts_.on_failure(broken);
    writing_.on_failure(broken);
    shared_.lanes.on_start([this](held_ptr row) { start(std::move(row)); });
    shared_.lanes.on_more([this] { dispatch_alarm_->ring(); });
    shared_.settlements.on_settled([this](settled& one, bool changed) { settled_one(one, changed); });
    claims_.on_unknown_endpoint([this] { endpoints_.refresh(); });
    claims_.on_lease_lost([this] { lease_.doubt(); });
    claims_.on_schema_fault([this](const base::error& why) { lease_.mistrust(why); });
    shared_.settlements.on_schema_fault([this](const base::error& why) { lease_.mistrust(why); });
    lease_.on_prepare([this] { return prepare(); });
    lease_.on_registered([this] {
        circuits_.refresh();
        claims_.registered();
    });
    lease_.on_ready([this] {
        telemetry::log(telemetry::level::info, "ready", "claims can run", {{"relay", shared_.relay_id}});
        if (on_ready_) on_ready_();
    });
    lease_.on_info([this] { return info(); });
    if (wakeup_ != nullptr) wakeup_->on_wakeup([this](std::string_view payload) { woken(payload); });
}

asio::awaitable<bool> relay::prepare() {
    if (before_ready_) {
        auto done = co_await before_ready_();
        if (!done) {
            shared_.not_ready_reason = done.error().text;
            telemetry::log_limited(telemetry::level::warn, "not_ready", "prepare", "waiting: " + done.error().text);
            co_return false;
        }
    }
    const bool loaded = co_await endpoints_.load();
    if (!loaded) co_return false;
    const bool known = co_await circuits_.load();
    co_return known;
}

void relay::woken(std::string_view payload) {
    constexpr std::string_view lane_prefix = "lane:";
    if (payload.starts_with(lane_prefix)) {
        claims_.wake_lane(payload.substr(lane_prefix.size()));
        claims_.look_again_soon();
    } else if (payload == "route") {
        maintenance_.route_now();
    } else if (payload == "endpoint") {
        endpoints_.refresh();
        maintenance_.route_now();
    } else if (payload == "circuit") {
        circuits_.refresh();
    } else if (payload == "relay") {
        lease_.doubt();  // the heartbeat tells how many share the endpoints' rates now
    } else if (payload == "listening" || payload == "deaf") {
        shared_.listening = payload == "listening";
        shared_.metrics.listening(shared_.listening);
        claims_.wake_all();
    } else {
        claims_.wake_all();
        claims_.look_again_soon();
    }
}

void relay::launch() {
    writing_.spawn(shared_.settlements.run());
    shared_.group.spawn(lease_.run());
    shared_.group.spawn(claims_.run());
    shared_.group.spawn(circuits_.run());
    shared_.group.spawn(endpoints_.run());
    shared_.group.spawn(endpoints_.watch_health());
    shared_.group.spawn(keep_dispatching());
    if (!draining_) shared_.group.spawn(maintenance_.run());
}

asio::awaitable<bool> relay::run() {
    launch();
    while (!shared_.stopping) co_await stop_alarm_->wait(base::boot_time::max());
    co_await shut_down();
    co_return all_written_;
}

bool relay::all_quiet() const { return shared_.lanes.in_flight() == 0 && shared_.lanes.queued() == 0 && shared_.settlements.waiting() == 0; }

asio::awaitable<drain_tally> relay::drain(int max_passes, base::milliseconds timeout) {
    draining_ = true;
    const auto begun = shared_.time.now();
    const auto until = timeout.count() > 0 ? begun + timeout : base::boot_time::max();
    launch();
    int passes = 0;
    // Without a database there is nothing to wait for in a command: a few seconds for a restart, no more.
    const auto ready_by = std::min(until, begun + seconds{10});
    while (!shared_.stopping && !shared_.ready && shared_.time.now() < ready_by) co_await stop_alarm_->wait(shared_.time.now() + milliseconds{20});
    tally_.database_answered = shared_.ready;
    while (shared_.ready && !shared_.stopping && shared_.time.now() < until && (max_passes == 0 || passes < max_passes)) {
        ++passes;
        const auto before = tally_.published + tally_.retried + tally_.failed;
        co_await maintenance_.find_work();
        claims_.look_again();
        while (!shared_.stopping && shared_.time.now() < until && !(claims_.found_nothing() && all_quiet())) {
            if (all_quiet() && !claims_.found_nothing()) claims_.ring();
            co_await stop_alarm_->wait(shared_.time.now() + milliseconds{5});
        }
        if (tally_.published + tally_.retried + tally_.failed == before) break;
    }
    shared_.stopping = true;
    co_await shut_down();
    co_return tally_;
}

void relay::stop() {
    if (shared_.stopping) return;
    shared_.stopping = true;
    stop_alarm_->ring();
}

void relay::abort() {
    aborted_ = true;
    shared_.stopping = true;
    shared_.sender.abort();
    stop_alarm_->ring();
}

// The order matters: no new claims, waiting rows back at once, the wire, the results, and last the relay's own row.
asio::awaitable<void> relay::shut_down() {
    const auto drain_end = shared_.time.now() + (aborted_ ? base::milliseconds{0} : shared_.settings->relay.drain_timeout);
    claims_.stop();
    shared_.lanes.stop();
    circuits_.stop();
    endpoints_.stop();
    maintenance_.stop();
    dispatch_alarm_->ring();
    hand_back_all(shared_);
    telemetry::log(telemetry::level::info, "stopping", "claiming has ended; finishing what is on the wire", {{"in_flight", static_cast<std::int64_t>(shared_.lanes.in_flight())}});
    bool quiet = attempts_.size() == 0;
    while (!quiet && !aborted_ && shared_.time.now() < drain_end) quiet = co_await attempts_.drained(std::min(drain_end, shared_.time.now() + milliseconds{100}));
    if (!quiet) {
        shared_.sender.abort();
        co_await attempts_.drained(shared_.time.now() + abort_grace);
    }
    // A claim that was under way brings rows: they are handed back as well, or they would wait for the end of the lease.
    const auto claim_end = std::max(drain_end, shared_.time.now() + claim_grace);
    while (shared_.settlements.claim_is_under_way() && shared_.time.now() < claim_end) co_await stop_alarm_->wait(std::min(claim_end, shared_.time.now() + milliseconds{10}));
    hand_back_all(shared_);
    shared_.settlements.stop(std::max(drain_end, shared_.time.now() + settle_grace));
    all_written_ = co_await writing_.drained(std::max(drain_end, shared_.time.now() + settle_grace) + seconds{1}) && shared_.settlements.waiting() == 0;
    lease_.stop();
    if (shared_.relay_id != 0 && all_written_) {
        // A database that has fallen silent must not hold the end up: the lease tells the others as well.
        shared_.group.spawn(give_up_retiring(std::max(drain_end, shared_.time.now() + retire_grace)));
        (void)co_await shared_.store.retire_relay(shared_.relay_id);
        retired_ = true;
        stop_alarm_->ring();
    }
    shared_.store.close();
    shared_.sender.close();
    const bool gone = co_await shared_.group.drained(shared_.time.now() + seconds{1});
    // What still waits for the database, the settler included, would outlive this relay.
    if (!gone || writing_.size() > 0) {
        shared_.store.abort();
        co_await shared_.group.drained(shared_.time.now() + seconds{2});
        co_await writing_.drained(shared_.time.now() + seconds{2});
    }
}

asio::awaitable<void> relay::give_up_retiring(base::boot_time until) {
    while (!retired_ && shared_.time.now() < until) co_await stop_alarm_->wait(until);
    if (!retired_) shared_.store.abort();
}

void relay::reload(std::shared_ptr<const config::config> settings) {
    shared_.settings = settings;
    shared_.lease.resize(settings->relay.lease);
    shared_.lanes.set_limits({settings->relay.max_in_flight, settings->relay.max_in_flight_bytes});
    shared_.endpoints.reconfigure(settings);
    for (auto& [name, l] : shared_.lanes.lanes()) {
        if (l->is_direct()) set_up_lane(shared_, *l);
    }
    shared_.sender.reload();
    endpoints_.refresh();
    lease_.doubt();
}

void relay::start(held_ptr row) { attempts_.spawn(work(std::move(row))); }

asio::awaitable<void> relay::work(held_ptr row) {
    while (row) {
        lane& l = *row->home;
        const auto bytes = static_cast<std::int64_t>(row->row.event.body.size());
        shared_.metrics.in_flight(shared_.lanes.in_flight(), shared_.lanes.bytes());
        attempt_context context{shared_.endpoints, shared_.sender, shared_.time, shared_.server_now()};
        attempt_result result = co_await attempt_delivery(*row, context);
        // An attempt that the second signal cut off is handed back; it was no attempt of the endpoint's.
        if (aborted_ && result.settlement.outcome == lifecycle::outcome::retried && !result.settlement.counts) {
            result.settlement.outcome = lifecycle::outcome::released;
            result.settlement.retry_in.reset();
        }
        conclude(*row, result);
        row->row.event.body = std::string{};
        shared_.settlements.add(settled{std::move(row), std::move(result.settlement)});
        shared_.lanes.finished(l, bytes);
        claims_.room();
        row = shared_.lanes.take();
        shared_.lanes.dispatch();
    }
    shared_.metrics.in_flight(shared_.lanes.in_flight(), shared_.lanes.bytes());
}

void relay::conclude(const held& row, const attempt_result& result) {
    lane& l = *row.home;
    const auto& s = result.settlement;
    if (s.outcome != lifecycle::outcome::released) {
        shared_.metrics.attempt(s.outcome, s.http_status, result.sent ? static_cast<double>(s.duration_ms) / 1000.0 : 0.0);
        log_attempt(row, result);
    }
    if (!result.sent) {
        if (row.probe) circuits_.probe_not_sent(l);
        return;
    }
    if (row.row.attempts == 0 && row.row.rescued == 0) {
        const auto late = shared_.server_now() - row.row.event.created_at;
        shared_.metrics.first_attempt_latency(std::max(0.0, std::chrono::duration<double>(late).count() - static_cast<double>(s.duration_ms) / 1000.0));
    }
    if (result.trouble) {
        l.window.trouble();
    } else if (s.outcome == lifecycle::outcome::published) {
        l.window.success(milliseconds{s.duration_ms}, l.to ? l.to->settings.timeout : seconds{15});
    }
    if (s.outcome == lifecycle::outcome::published) {
        l.health.success(shared_.time.now());
    } else if (s.counts) {
        l.health.failure(shared_.time.now());
    }
    circuits_.observe(l, result.for_circuit, row.probe, s.error, s.retry_in);
    if (result.disable_endpoint && !l.is_direct()) {
        endpoints_.disable(l.name, s.http_status == 410 ? "the receiver answered 410 Gone" : "the receiver asked for it (webhook-delivery: disable)");
    }
}

void relay::log_attempt(const held& row, const attempt_result& result) {
    const auto& s = result.settlement;
    const auto wanted = shared_.settings->log.attempts;
    const bool good = s.outcome == lifecycle::outcome::published;
    if (wanted == config::log_attempts::none || (wanted == config::log_attempts::failures && good)) return;
    const auto level = good ? telemetry::level::info : s.outcome == lifecycle::outcome::failed ? telemetry::level::error : telemetry::level::warn;
    if (!telemetry::enabled(level)) return;
    const auto& c = row.row;
    telemetry::log(level, "attempt", s.error,
                   {{"event_id", std::string_view{c.event.event_id}},
                    {"event_type", std::string_view{c.event.event_type}},
                    {"sequence", c.event.id},
                    {"delivery", c.delivery},
                    {"endpoint", c.endpoint ? std::string_view{*c.endpoint} : std::string_view{}},
                    {"lane", std::string_view{c.lane}},
                    {"attempt", static_cast<std::int64_t>(c.attempts + 1)},
                    {"outcome", lifecycle::to_string(s.outcome)},
                    {"http_status", static_cast<std::int64_t>(s.http_status)},
                    {"error_class", lifecycle::to_string(s.error_class)},
                    {"duration_ms", static_cast<std::int64_t>(s.duration_ms)},
                    {"retry_in_ms", static_cast<std::int64_t>(s.outcome == lifecycle::outcome::retried && s.retry_in ? s.retry_in->count() : 0)},
                    {"size", c.size},
                    {"reused", result.reused},
                    {"probe", row.probe},
                    {"relay", row.relay}});
}

void relay::settled_one(settled& one, bool changed) {
    const auto& s = one.what;
    if (!one.taken) shared_.lanes.forget(s.delivery);
    switch (s.outcome) {
        case lifecycle::outcome::published: ++tally_.published; break;
        case lifecycle::outcome::retried: ++tally_.retried; break;
        case lifecycle::outcome::failed:
        case lifecycle::outcome::expired:
        case lifecycle::outcome::cancelled: ++tally_.failed; break;
        default: break;
    }
    if (shared_.stopping || !changed) return;
    if ((s.outcome == lifecycle::outcome::retried || s.outcome == lifecycle::outcome::released) && s.retry_in && s.retry_in->count() > 0) {
        claims_.wake_lane_at(one.row->row.lane, shared_.time.now() + *s.retry_in + milliseconds{1});
    }
    // The key's next delivery may go now.
    if (one.row->row.ordering_key && s.outcome != lifecycle::outcome::retried) claims_.wake_lane(one.row->row.lane);
}

asio::awaitable<void> relay::keep_dispatching() {
    while (!shared_.stopping) {
        const auto next = shared_.lanes.next_token();
        if (next <= shared_.time.now()) {
            shared_.lanes.tokens_due();
            claims_.room();
            continue;
        }
        const bool rung = co_await dispatch_alarm_->wait(next);
        if (rung) shared_.lanes.dispatch();
    }
}

std::string relay::info() const {
    const auto& m = shared_.metrics;
    std::string text = "{\"in_flight\":" + std::to_string(shared_.lanes.in_flight()) + ",\"queued\":" + std::to_string(shared_.lanes.queued()) +
                       ",\"in_flight_bytes\":" + std::to_string(shared_.lanes.bytes()) + ",\"published\":" + std::to_string(m.total(lifecycle::outcome::published)) +
                       ",\"retried\":" + std::to_string(m.total(lifecycle::outcome::retried)) + ",\"failed\":" + std::to_string(m.total(lifecycle::outcome::failed)) +
                       ",\"settlements_waiting\":" + std::to_string(shared_.settlements.waiting()) + ",\"asking\":" + (claims_.asking() ? "true" : "false");
    // For `why`: these lanes wait for nothing but their rate.
    std::string names;
    for (const auto& name : shared_.lanes.rate_waiting(50)) names += (names.empty() ? "\"" : ",\"") + base::json_escape(name) + "\"";
    return text + ",\"rate_limited\":[" + names + "]}";
}

view relay::look() const {
    view v;
    v.database_up = shared_.ready && !claims_.failing();
    v.listening = shared_.listening;
    v.stopping = shared_.stopping;
    v.claiming = shared_.ready && !claims_.failing() && !shared_.settlements.failing() && shared_.lease.alive(shared_.time.now());
    v.ready = v.claiming && !shared_.stopping;
    v.reason = shared_.stopping                  ? "stopping"
               : !shared_.ready                  ? shared_.not_ready_reason
               : claims_.failing()               ? claims_.last_error()
               : shared_.settlements.failing()   ? "results cannot be written: " + shared_.settlements.last_error()
               : !v.claiming                     ? "the lease ran out; waiting for the database"
                                                 : "";
    if (claims_.last_claim() != base::boot_time{}) v.last_claim_age_seconds = std::chrono::duration<double>(shared_.time.now() - claims_.last_claim()).count();
    v.in_flight = shared_.lanes.in_flight();
    v.in_flight_bytes = shared_.lanes.bytes();
    v.queued = shared_.lanes.queued();
    v.settlements_waiting = shared_.settlements.waiting();
    v.relay_id = shared_.relay_id;
    v.counts = maintenance_.counts();
    return v;
}

}  // namespace outboxd::relay
