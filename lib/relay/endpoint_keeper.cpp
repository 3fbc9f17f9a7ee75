#include "relay/endpoint_keeper.hpp"

#include <algorithm>
#include <utility>

#include "relay/hand_back.hpp"
#include "relay/lane_setup.hpp"
#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A single change is read at once; when more keep coming, they are read together.
constexpr auto least_spacing = milliseconds{10};
constexpr auto load_spacing = milliseconds{200};
constexpr auto quiet_time = seconds{1};
// Without wake-ups a change is seen by asking; with them asking only guards against a lost one.
constexpr auto digest_interval = milliseconds{500};
constexpr auto digest_interval_listening = seconds{5};
constexpr auto health_interval = seconds{5};

}  // namespace

endpoint_keeper::endpoint_keeper(engine& shared, claimer& claims) : shared_(shared), claims_(claims), work_(shared.time.make_alarm()), health_alarm_(shared.time.make_alarm()) {}

void endpoint_keeper::stop() {
    stopping_ = true;
    work_->ring();
    health_alarm_->ring();
}

asio::awaitable<void> endpoint_keeper::run() {
    while (!stopping_) {
        const auto now = shared_.time.now();
        const auto pause = shared_.listening ? milliseconds{digest_interval_listening} : digest_interval;
        auto until = std::min(now + pause, std::max(now + load_spacing, shared_.endpoints.next_expiry()));
        if (refresh_due_) until = std::max(now, last_load_ + spacing_);
        if (now < until) {
            co_await work_->wait(until);
            if (stopping_) co_return;
            if (refresh_due_ && shared_.time.now() < last_load_ + spacing_) continue;
        }
        if (!shared_.ready) {
            if (refresh_due_) co_await work_->wait(shared_.time.now() + load_spacing);
            continue;
        }
        co_await look();
    }
}

asio::awaitable<void> endpoint_keeper::look() {
    bool changed = refresh_due_ || shared_.time.now() >= shared_.endpoints.next_expiry();
    if (!changed) {
        auto digest = co_await shared_.store.endpoint_digest();
        changed = digest && *digest != digest_;
    }
    if (changed) co_await load();
}

asio::awaitable<bool> endpoint_keeper::load() {
    refresh_due_ = false;
    const auto now = shared_.time.now();
    spacing_ = now - last_load_ > quiet_time ? least_spacing : std::clamp(spacing_ * 2, least_spacing, load_spacing);
    last_load_ = now;
    auto state = co_await shared_.store.load_endpoints();
    if (!state) {
        telemetry::log_limited(telemetry::level::warn, "endpoints_not_loaded", "load", "the endpoints cannot be read; those known before hold: " + state.error().text);
        co_return false;
    }
    shared_.endpoints_read_at = last_load_;
    adopt(*state);
    co_return true;
}

void endpoint_keeper::adopt(const ports::shared_state& state) {
    digest_ = state.digest;
    auto changed = shared_.endpoints.adopt(state.endpoints, shared_.time.now());
    // What the database says of them now holds, also when it was enabled again meanwhile or could not be disabled.
    for (const auto& name : std::exchange(stopped_here_, {})) {
        if (std::find(changed.begin(), changed.end(), name) == changed.end()) changed.push_back(name);
    }
    for (const auto& name : changed) {
        const auto to = shared_.endpoints.find(name);
        lane* l = shared_.lanes.find(name);
        // An endpoint that may not be sent to needs a lane, so that discovery passes it by.
        if (l == nullptr && to && !to->usable) l = &shared_.lanes.at(name);
        if (l == nullptr) continue;
        const bool usable_before = l->usable();
        set_up_lane(shared_, *l);
        shared_.lanes.refresh(*l);
        if (!l->usable()) hand_back_queue(shared_, *l);
        if (l->usable() && !usable_before) {
            l->window.restart();
            l->bound.reset();
            l->health.forget();
        }
        if (l->usable()) claims_.wake_lane(name);
    }
    if (!changed.empty()) {
        telemetry::log(telemetry::level::info, "endpoints_loaded", "endpoints were read",
                       {{"count", static_cast<std::int64_t>(state.endpoints.size())}, {"changed", static_cast<std::int64_t>(changed.size())}});
        shared_.lanes.dispatch();
        claims_.ring();
    }
}

asio::awaitable<void> endpoint_keeper::watch_health() {
    while (!stopping_) {
        co_await health_alarm_->wait(shared_.time.now() + health_interval);
        if (stopping_) co_return;
        if (!shared_.ready) continue;
        auto news = health_news();
        if (news.empty()) continue;
        auto disabled = co_await shared_.store.note_endpoints(std::move(news));
        if (!disabled) {
            if (disabled.error().code != base::errc::cancelled) telemetry::log_limited(telemetry::level::warn, "endpoint_health_failed", "", disabled.error().text);
            continue;
        }
        for (const auto& one : *disabled) telemetry::log(telemetry::level::warn, "endpoint_disabled", one.reason, {{"endpoint", std::string_view{one.name}}});
        refresh();
    }
}

std::vector<ports::endpoint_note> endpoint_keeper::health_news() {
    using lifecycle::endpoint_health;
    std::vector<ports::endpoint_note> notes;
    const auto now = shared_.time.now();
    const auto age = [&](base::boot_time then) { return std::chrono::duration_cast<milliseconds>(now - then); };
    for (auto& [name, l] : shared_.lanes.lanes()) {
        if (l->is_direct() || !l->usable()) continue;
        const auto after = l->to->settings.auto_disable_after;
        const auto written = shared_.endpoints.failing_since(name);
        const auto what = l->health.look(now, written, after);
        if (what == endpoint_health::news::none) continue;
        ports::endpoint_note note;
        note.name = name;
        if (l->health.failing_since()) note.failing_for = age(*l->health.failing_since());
        if (l->health.last_success()) note.last_success = age(*l->health.last_success());
        note.disable_after = after;
        l->health.noted();
        notes.push_back(std::move(note));
    }
    return notes;
}

// This relay stops at once: what waits here would get the same answer before the database has it.
void endpoint_keeper::disable(std::string name, std::string reason) {
    if (lane* l = shared_.lanes.find(name); l != nullptr && l->to) {
        auto off = std::make_shared<endpoint>(*l->to);
        off->usable = false;
        off->operator_stopped = true;
        off->reason = reason;
        l->to = std::move(off);
        stopped_here_.insert(name);
        shared_.lanes.refresh(*l);
        hand_back_queue(shared_, *l);
    }
    shared_.group.spawn(write_disabled(std::move(name), std::move(reason)));
}

asio::awaitable<void> endpoint_keeper::write_disabled(std::string name, std::string reason) {
    auto written = co_await shared_.store.disable_endpoint(name, reason);
    if (written) {
        telemetry::log(telemetry::level::warn, "endpoint_disabled", reason, {{"endpoint", std::string_view{name}}});
    } else {
        telemetry::log(telemetry::level::warn, "endpoint_disable_failed", written.error().text, {{"endpoint", std::string_view{name}}});
    }
    refresh();
}

}  // namespace outboxd::relay
