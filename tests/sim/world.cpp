#include "world.hpp"

#include <algorithm>

namespace outboxd::sim {

using namespace std::chrono_literals;
using testkit::receiver_act;
using testkit::store_fault;

namespace {

constexpr auto calm_time = 6min;
// What is younger than this at the end of a calm may still be on its way.
constexpr auto grace = 90s;

std::shared_ptr<config::config> make_settings() {
    auto c = std::make_shared<config::config>();
    c->log.attempts = config::log_attempts::none;
    c->relay.lease = 20s;
    c->relay.poll_interval = 5s;
    c->relay.drain_timeout = 10s;
    c->relay.max_rescues = 5;
    c->relay.claim_batch = 32;
    c->relay.max_in_flight = 32;
    c->defaults.timeout = 5s;
    c->defaults.connect_timeout = 2s;
    c->defaults.signing = wire::signing_scheme::none;
    c->defaults.retry = lifecycle::retry_policy{{1s, 2s, 5s, 10s, 20s, 30s, 30s}, base::milliseconds{0}, 2.0, base::milliseconds{0}, 8, 0.2};
    c->defaults.circuit = lifecycle::circuit_settings{3, 5s, 40s, 1, 2};
    return c;
}

base::wall_time wall(base::boot_time t) { return base::wall_time{1'800'000'000s} + std::chrono::duration_cast<base::microseconds>(t.time_since_epoch()); }

}  // namespace

world::world(world_options options)
    : options_(options),
      dice_(options.seed),
      settings_(make_settings()),
      database_([this] { return wall(now_) + server_skew_; }),
      watch_(database_, [this] { return now_; }, {settings_->relay.lease, 8, settings_->relay.max_rescues}) {
    if (options_.broken != nullptr && options_.broken->database) options_.broken->database(database_.broken);
    watch_.trace(options_.trace);
    set_up_endpoints();
}

world_result world::run() {
    for (int i = 0; i < 3; ++i) start_relay();
    write_forever();
    trouble_forever();
    const auto end = now_ + options_.length;
    while (now_ < end && !(options_.stop_at_violation && !watch_.violations().empty())) {
        run_until(now_ + 5min + pause(300));
        calm_down();
        run_until(now_ + calm_time);
        if (!(options_.stop_at_violation && !watch_.violations().empty())) check_after_calm();
    }
    result_.report += watch_.report();
    result_.sends = watch_.sends();
    result_.ended = watch_.ended();
    result_.duplicates = watch_.duplicates();
    result_.lost_claims = watch_.lost_claims();
    return result_;
}

void world::run_until(base::boot_time end) {
    while (!(options_.stop_at_violation && !watch_.violations().empty())) {
        auto next = plan_.empty() ? base::boot_time::max() : plan_.begin()->first;
        for (const auto& [number, s] : stations_) next = std::min(next, s.process->next());
        if (next > end) break;
        now_ = std::max(now_, next);
        ++result_.steps;
        while (!plan_.empty() && plan_.begin()->first <= now_) {
            const auto what = std::move(plan_.begin()->second);
            plan_.erase(plan_.begin());
            what();
        }
        step_processes();
    }
    now_ = std::max(now_, end);
}

void world::step_processes() {
    bool ended = false;
    for (auto& [number, s] : stations_) {
        if (s.process->next() <= now_) s.process->advance_to(now_);
        ended = ended || !s.process->running();
    }
    if (ended) sweep_ended();
}

// A relay that stopped by itself has left nothing behind; another takes its place.
void world::sweep_ended() {
    for (auto it = stations_.begin(); it != stations_.end();) {
        auto& process = *it->second.process;
        if (process.running()) {
            ++it;
            continue;
        }
        if (process.ended() && (!process.nothing_left() || !process.failure().empty())) result_.report += "a relay left coroutines or an exception behind: " + process.failure() + "\n";
        process.kill();
        graves_.push_back(std::move(it->second.process));
        it = stations_.erase(it);
        plan_in(pause(calm_ ? 1 : 10), [this] { start_relay(); });
    }
}

void world::start_relay() {
    if (stations_.size() >= 4) return;
    const int number = ++numbers_;
    auto& s = stations_[number];
    s.process = std::make_unique<testkit::relay_process>(database_, watch_, settings_, testkit::process_setup{number, dice_(), now_, true, options_.broken != nullptr ? options_.broken->layer : nullptr});
    auto& p = *s.process;
    p.time.wall_skew = std::chrono::hours{draw(48) - 24};
    p.store.on_call([this, number](int, std::string_view call) { return network(number, call); });
    p.store.on_late([this](base::milliseconds in, std::function<void()> work) { plan_in(in, std::move(work)); });
    p.sender.on_send([this, number](const testkit::sent_request& r) { return receiver(number, r); });
    p.run();
    p.advance_to(now_);
    s.listening = draw() < 0.8;
    if (s.listening) p.notify("listening");
    p.advance_to(now_);
}

// Every call takes a moment; in bad times it fails, hangs, is done without a reply, or is done after everybody has given it up.
std::optional<store_fault> world::network(int number, std::string_view call) {
    using kind = store_fault::kind;
    const auto moment = base::milliseconds{calm_ ? 1 : 1 + draw(8)};
    const auto it = stations_.find(number);
    if (it != stations_.end() && now_ < it->second.cut_until) {
        const double d = draw();
        if (d < 0.3) return store_fault{kind::error, base::errc::database_unreachable, base::milliseconds{1 + draw(200)}};
        if (d < 0.7 && call == "claim") return store_fault{kind::done_late, base::errc::timeout, 5s, base::milliseconds{draw(90'000)}};
        if (d < 0.6) return store_fault{kind::reply_lost, base::errc::timeout, 5s};
        return store_fault{kind::late, base::errc::timeout, 5s};
    }
    if (calm_ || draw() > 0.03) return store_fault{kind::slow, base::errc::timeout, moment};
    switch (draw(5)) {
        case 0: return store_fault{kind::error, base::errc::database_unreachable, moment};
        case 1: return store_fault{kind::error, base::errc::database_busy, moment};
        case 2: return store_fault{kind::reply_lost, base::errc::database_unreachable, base::milliseconds{1 + draw(3000)}};
        case 3: return store_fault{call == "claim" ? kind::done_late : kind::late, base::errc::timeout, 5s, base::milliseconds{draw(20'000)}};
        default: return store_fault{kind::slow, base::errc::timeout, base::milliseconds{1 + draw(2500)}, base::milliseconds{1 + draw(2500)}};
    }
}

void world::notify_all(const std::string& payload) {
    for (auto& [number, s] : stations_) {
        if (!s.listening || now_ < s.cut_until || !s.process->running()) continue;
        if (!s.process->frozen()) s.process->advance_to(now_);
        s.process->notify(payload);
        s.process->advance_to(now_);
    }
}

void world::set_up_endpoints() {
    const std::vector<std::pair<std::string, std::string>> endpoints{
        {"plain", "{}"},  {"narrow", R"({"concurrency": 2})"}, {"limited", R"({"rate_limit": "5/s"})"}, {"strict", R"({"on_failed": "block"})"}, {"steady", R"({"adaptive": false})"}, {"busy", "{}"}};
    for (const auto& [name, settings] : endpoints) {
        testkit::fake_endpoint e;
        e.row.name = name;
        e.row.url = "https://" + name + ".test/hook";
        e.row.settings = settings;
        e.events = {name, "all"};
        database_.add_endpoint(e);
        lanes_.push_back(name);
    }
    for (const std::string host : {"one", "two"}) lanes_.push_back("url:https://" + host + ".example:443");
}

// Mostly a trickle, at times a burst that keeps several requests on the wire.
void world::write_forever() {
    const int n = draw() < 0.08 ? 1 + draw(25) : 1;
    for (int i = 0; i < n; ++i) write_one();
    plan_in(pause(3.0), [this] { write_forever(); });
}

testkit::fake_event world::draw_event(const std::string& lane) {
    testkit::fake_event e;
    e.event_type = lane;
    e.body = "{\"n\":  " + std::to_string(draw(1000)) + ".0}";
    if (lane.starts_with("url:")) {
        e.event_type = "direct";
        e.url = lane.substr(4) + "/x";
        e.lane = lane;
    } else if (draw() < 0.1) {
        e.event_type = "addressed";
        e.endpoint = lane;
    }
    const double d = draw();
    if (d < 0.3) {
        e.ordering_key = "k" + std::to_string(draw(3));
    } else if (d < 0.36) {
        e.deliver_at = database_.now() + base::seconds{draw(120)};
    } else if (d < 0.42) {
        e.expires_at = database_.now() + base::seconds{1 + draw(30)};
    } else if (d < 0.5) {
        e.max_attempts = 1 + draw(3);
    }
    return e;
}

void world::announce(std::int64_t event, const testkit::fake_event& e, std::set<std::string> lanes) {
    watch_.committed(event, e, lanes);
    const bool asked = std::any_of(database_.relays.begin(), database_.relays.end(), [](const auto& r) { return r.second.wake; });
    if (!asked) return;
    for (const auto& lane : lanes) notify_all("lane:" + lane);
}

void world::write_one() {
    ++result_.events;
    // One lane has something new all the time: it is asked for by name and never discovered.
    const std::string lane = draw() < 0.5 ? "busy" : lanes_[static_cast<std::size_t>(draw(static_cast<int>(lanes_.size())))];
    testkit::fake_event e = draw_event(lane);
    std::set<std::string> to{lane};
    if (e.event_type == lane && !e.ordering_key && draw() < 0.05) {
        e.event_type = "all";
        for (const auto& l : lanes_) {
            if (!l.starts_with("url:")) to.insert(l);
        }
    }
    if (e.ordering_key || draw() < 0.85) {
        const auto event = database_.insert(e);
        if (draw() < 0.001) poison_.insert("event-" + std::to_string(event));
        announce(event, e, to);
        return;
    }
    if (draw() < 0.3) {
        watch_.committed(database_.insert_unseen(e), e, to);
        return;
    }
    const auto transaction = database_.begin();
    open_.insert(transaction);
    const auto event = database_.insert(e, transaction);
    plan_in(std::min<base::milliseconds>(pause(calm_ ? 1 : 10), 60s), [this, transaction, event, e, to] {
        open_.erase(transaction);
        if (draw() < 0.3) {
            database_.rollback(transaction);
            return;
        }
        database_.commit(transaction);
        announce(event, e, to);
    });
}

receiver_act world::receiver(int number, const testkit::sent_request& r) {
    if (!calm_ && poison_.contains(r.event_id)) {
        plan_in(5ms, [this, number] { crash(number, 0); });
        return receiver_act::hang();
    }
    const auto took = base::milliseconds{2 + draw(60)};
    const auto it = tempers_.find(r.origin);
    switch (calm_ || it == tempers_.end() ? temper::good : it->second) {
        case temper::good: return receiver_act::answer(200, took);
        case temper::failing: return receiver_act::answer(503, took);
        case temper::refusing: return receiver_act::broken(lifecycle::error_class::connect, took);
        case temper::hanging: return receiver_act::hang();
        case temper::slow: return receiver_act::answer(200, base::milliseconds{1000 + draw(5000)});
        case temper::flapping: return draw() < 0.5 ? receiver_act::answer(200, took) : receiver_act::answer(draw() < 0.5 ? 500 : 404, took);
        case temper::lying: return draw() < 0.5 ? receiver_act::broken(lifecycle::error_class::protocol, took) : receiver_act::answer(302, took);
        case temper::throttling: {
            auto act = receiver_act::answer(429, took);
            act.retry_after = std::to_string(1 + draw(20));
            return act;
        }
        case temper::gone: return receiver_act::answer(410, took);
    }
    return receiver_act::answer(200, took);
}

void world::trouble_forever() {
    if (!calm_) trouble();
    plan_in(pause(12), [this] { trouble_forever(); });
}

void world::trouble() {
    if (draw() < 0.55) {
        trouble_with_relay();
    } else {
        trouble_outside();
    }
}

void world::trouble_with_relay() {
    if (stations_.empty()) return;
    auto it = std::next(stations_.begin(), draw(static_cast<int>(stations_.size())));
    auto& [number, s] = *it;
    switch (draw(7)) {
        case 0:
        case 1: crash(number, 400); return;
        case 2: {
            s.process->freeze();
            plan_in(pause(20), [this, n = number] {
                if (const auto at = stations_.find(n); at != stations_.end()) {
                    at->second.process->thaw();
                    at->second.process->advance_to(now_);
                }
            });
            return;
        }
        case 3: s.cut_until = now_ + pause(25); return;
        case 4:
            s.listening = !s.listening;
            s.process->advance_to(now_);
            s.process->notify(s.listening ? "listening" : "deaf");
            s.process->advance_to(now_);
            return;
        case 5: s.process->stop(); break;
        default: s.process->abort(); break;
    }
    s.process->advance_to(now_);
}

// kill -9, and rather in the middle of work than in a moment of rest.
void world::crash(int number, int patience) {
    const auto it = stations_.find(number);
    if (it == stations_.end() || !it->second.process->running()) return;
    const auto state = it->second.process->engine().look();
    if (patience > 0 && state.in_flight == 0 && state.settlements_waiting == 0 && draw() < 0.99) {
        plan_in(10ms, [this, number, patience] { crash(number, patience - 1); });
        return;
    }
    ++result_.crashes;
    it->second.process->kill();
    sweep_ended();
}

void world::trouble_outside() {
    const int what = draw(options_.clock_jumps ? 5 : 4);
    if (what == 4) {
        server_skew_ += base::seconds{draw(120) - 60};
        watch_.server_clock_moved();
        return;
    }
    if (what == 3) {
        auto& e = std::next(database_.endpoints.begin(), draw(static_cast<int>(database_.endpoints.size())))->second;
        e.row.paused = !e.row.paused;
        database_.endpoint_changed();
        notify_all("endpoint");
        return;
    }
    const auto& lane = lanes_[static_cast<std::size_t>(draw(static_cast<int>(lanes_.size())))];
    const std::string origin = lane.starts_with("url:") ? lane.substr(4) : "https://" + lane + ".test:443";
    const int roll = draw(18);
    tempers_[origin] = roll < 16 ? static_cast<temper>(roll / 2) : roll == 16 ? temper::gone : temper::good;
}

void world::calm_down() {
    calm_ = true;
    tempers_.clear();
    for (auto& [name, e] : database_.endpoints) {
        e.row.enabled = true;
        e.row.paused = false;
    }
    for (auto& [id, row] : database_.deliveries) row.blocks = false;
    database_.endpoint_changed();
    for (auto& [number, s] : stations_) {
        s.cut_until = {};
        s.process->thaw();
        s.process->advance_to(now_);
    }
    if (stations_.empty()) start_relay();
}

void world::check_after_calm() {
    watch_.check_all_ended(database_.now() - grace);
    watch_.check_claims();
    calm_ = false;
    database_.attempts.clear();
}

}  // namespace outboxd::sim
