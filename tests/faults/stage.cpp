#include "stage.hpp"

#include <algorithm>

namespace outboxd::faults {

using namespace std::chrono_literals;
using testkit::receiver_act;
using testkit::store_fault;

namespace {

const std::string direct_lane = "url:https://direct.example:443";
constexpr auto longer_than_any_deadline = base::milliseconds{8000};

std::shared_ptr<config::config> make_settings() {
    auto c = std::make_shared<config::config>();
    c->log.attempts = config::log_attempts::none;
    c->relay.lease = 12s;
    c->relay.drain_timeout = 5s;
    c->relay.max_rescues = 3;
    c->defaults.timeout = 4s;
    c->defaults.connect_timeout = 2s;
    c->defaults.signing = wire::signing_scheme::none;
    c->defaults.retry = lifecycle::retry_policy{{1s, 2s, 3s, 3s, 3s, 3s, 3s}, base::milliseconds{0}, 2.0, base::milliseconds{0}, 8, 0.0};
    c->defaults.circuit = lifecycle::circuit_settings{2, 3s, 6s, 1, 1};
    return c;
}

base::wall_time wall(base::boot_time t) { return base::wall_time{1'800'000'000s} + std::chrono::duration_cast<base::microseconds>(t.time_since_epoch()); }

}  // namespace

std::string name_of(fault f) {
    switch (f) {
        case fault::none: return "nothing";
        case fault::error: return "an error";
        case fault::refusal: return "a refusal";
        case fault::late: return "a delay beyond the deadline";
        case fault::reply_lost: return "a lost reply";
        case fault::crash_before: return "a crash before it is done";
        case fault::crash_after: return "a crash after it is done";
        case fault::stop: return "the first signal";
        case fault::abort: return "the second signal";
    }
    return "nothing";
}

stage::stage(fault f, int n)
    : fault_(f), at_(n), settings_(make_settings()), database_([this] { return wall(now_); }), watch_(database_, [this] { return now_; }, {settings_->relay.lease, 8, settings_->relay.max_rescues}) {}

std::string stage::report() const { return watch_.report() + trouble_; }

void stage::set_up_endpoints() {
    for (const std::string name : {"good", "flaky", "broken", "slow", "gone"}) {
        testkit::fake_endpoint e;
        e.row.name = name;
        e.row.url = "https://" + name + ".test/hook";
        e.row.settings = "{}";
        e.events = {name};
        database_.add_endpoint(e);
    }
}

void stage::insert(const std::string& lane, const std::string& body, const edit& change) {
    testkit::fake_event e;
    e.event_type = lane;
    e.body = body;
    if (change) change(e);
    const auto id = database_.insert(e);
    watch_.committed(id, e, {lane});
    const bool asked = std::any_of(database_.relays.begin(), database_.relays.end(), [](const auto& r) { return r.second.wake; });
    if (asked && process_) process_->notify("lane:" + lane);
}

void stage::insert_first() {
    // A relay that died with a claim.
    insert("good", "{\"n\": 0}");
    const auto dead = database_.register_relay(settings_->relay.lease);
    ports::claim_request claim;
    claim.relay = dead.relay;
    claim.discover_lanes = claim.discover_limit = claim.max_rows = 10;
    claim.max_bytes = claim.fetch_max = 1000;
    (void)database_.claim(claim);

    const edit keyed = [](testkit::fake_event& e) { e.ordering_key = "k"; };
    for (const std::string lane : {"good", "flaky", "slow", "gone"}) insert(lane, "{\"for\":  \"" + lane + "\"}");
    for (int i = 0; i < 4; ++i) insert("broken", "[1.0]");
    for (int i = 0; i < 3; ++i) insert("flaky", "{}", keyed);
    for (int i = 0; i < 3; ++i) insert("good", "{}", keyed);
    insert(direct_lane, "\"direct\"", [](testkit::fake_event& e) {
        e.url = "https://direct.example/x";
        e.lane = direct_lane;
    });
    insert("good", "{}", [this](testkit::fake_event& e) { e.deliver_at = database_.now() + 5s; });
    insert("good", "{}", [this](testkit::fake_event& e) {
        e.deliver_at = database_.now() + 3s;
        e.expires_at = database_.now() + 2s;
    });
    testkit::fake_event unseen;
    unseen.event_type = "good";
    const auto id = database_.insert_unseen(unseen);
    watch_.committed(id, unseen, {"good"});
}

void stage::insert_later() {
    insert("good", "{\"later\": 1}");
    insert("good", "{}", [](testkit::fake_event& e) { e.ordering_key = "k"; });
    insert("broken", "{}");
}

bool stage::strikes(std::string_view what) {
    if (++effects_ != at_ || fault_ == fault::none) return false;
    hit_ = what;
    struck_ = true;
    return true;
}

std::optional<store_fault> stage::store_meets(std::string_view call) {
    if (!strikes(call)) return std::nullopt;
    using kind = store_fault::kind;
    switch (fault_) {
        case fault::error: return store_fault{kind::error, base::errc::database_unreachable, 0ms};
        case fault::refusal: return store_fault{kind::error, base::errc::database_error, 1ms};
        case fault::late: return store_fault{kind::late, base::errc::timeout, longer_than_any_deadline};
        case fault::reply_lost: return store_fault{kind::reply_lost, base::errc::database_unreachable, 3ms};
        case fault::crash_before: return store_fault{kind::late, base::errc::timeout, 1h};
        case fault::crash_after: return store_fault{kind::reply_lost, base::errc::timeout, 1h};
        default: return std::nullopt;
    }
}

// Each lane has its own temper; an effect that is struck overrides it.
receiver_act stage::receiver_does(const testkit::sent_request& r) {
    if (strikes("send to " + r.origin)) {
        switch (fault_) {
            case fault::error: return receiver_act::broken(lifecycle::error_class::connect);
            case fault::refusal: return receiver_act::answer(500);
            case fault::reply_lost: return receiver_act::broken(lifecycle::error_class::protocol);
            case fault::stop:
            case fault::abort: break;
            default: return receiver_act::hang();
        }
    }
    if (r.origin.find("gone") != std::string::npos) return receiver_act::answer(410);
    if (r.origin.find("flaky") != std::string::npos && r.attempt == 1) return receiver_act::answer(500);
    if (r.origin.find("slow") != std::string::npos && r.attempt == 1) return receiver_act::hang();
    if (r.origin.find("broken") != std::string::npos && r.begun < begun_ + 12s) return receiver_act::broken(lifecycle::error_class::connect, 5ms);
    return receiver_act::answer(200);
}

std::unique_ptr<testkit::relay_process> stage::make_process(int number) {
    return std::make_unique<testkit::relay_process>(database_, watch_, settings_, testkit::process_setup{number, 7, now_, true, {}});
}

void stage::signal_if_due() {
    if (!struck_) return;
    if (fault_ == fault::stop) process_->stop();
    if (fault_ == fault::abort) process_->abort();
    if (fault_ == fault::crash_before || fault_ == fault::crash_after) process_->kill();
    struck_ = false;
}

void stage::play_until(base::boot_time end) {
    while (process_->running() && process_->next() <= end) {
        now_ = std::max(now_, process_->next());
        process_->advance_to(now_);
        signal_if_due();
    }
    now_ = end;
    process_->advance_to(now_);
    signal_if_due();
}

void stage::play(bool drains) {
    set_up_endpoints();
    insert_first();
    process_ = make_process(1);
    process_->store.on_call([this](int, std::string_view call) { return store_meets(call); });
    process_->sender.on_send([this](const testkit::sent_request& r) { return receiver_does(r); });
    if (drains) {
        process_->drain(0, 60s);
    } else {
        process_->run();
    }
    process_->advance_to(now_);
    signal_if_due();
    process_->notify("listening");
    play_until(begun_ + 8s);
    insert_later();
    process_->advance_to(now_);
    signal_if_due();
    play_until(begun_ + 30s);
    stop_and_wait();
    finish_with_a_healthy_relay();
}

// After stop() the loop ends by itself: within the drain, the grace for results, and what a call that hangs may take.
void stage::stop_and_wait() {
    const auto limit = now_ + 60s;
    process_->stop();
    process_->advance_to(now_);
    play_until(std::min(limit, std::max(now_, process_->next())));
    while (process_->running() && process_->next() <= limit) play_until(process_->next());
    if (process_->running()) trouble_ += "the relay does not end after stop()\n";
    if (process_->ended() && !process_->nothing_left()) trouble_ += "coroutines are left after the end\n";
    if (!process_->failure().empty()) trouble_ += "an exception: " + process_->failure() + "\n";
    if (process_->ended()) watch_.check_claims();
    process_->kill();
}

void stage::finish_with_a_healthy_relay() {
    fault_ = fault::none;
    for (auto& [name, e] : database_.endpoints) e.row.enabled = true;
    database_.endpoint_changed();
    process_ = make_process(2);
    process_->sender.on_send([](const testkit::sent_request&) { return receiver_act::answer(200); });
    process_->run();
    process_->advance_to(now_);
    process_->notify("listening");
    play_until(now_ + 90s);
    watch_.check_all_ended(database_.now() - 20s);
    stop_and_wait();
}

}  // namespace outboxd::faults
