#include "relay/circuits.hpp"

#include <algorithm>
#include <unordered_set>

#include "relay/hand_back.hpp"
#include "relay/lane_setup.hpp"
#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

using lifecycle::circuit_state;
using std::chrono::milliseconds;
using std::chrono::seconds;

int metric_value(circuit_state s) { return s == circuit_state::closed ? 0 : s == circuit_state::half_open ? 1 : 2; }

}  // namespace

circuits::circuits(engine& shared, claimer& claims) : shared_(shared), claims_(claims), work_(shared.time.make_alarm()) {}

void circuits::stop() {
    stopping_ = true;
    work_->ring();
}

asio::awaitable<void> circuits::run() {
    while (!stopping_) {
        const auto now = shared_.time.now();
        if (shared_.ready && (refresh_due_ || now >= next_load_)) co_await load();
        if (shared_.ready) co_await ask_for_probes();
        if (stopping_) co_return;
        if (!refresh_due_) co_await work_->wait(next_moment(shared_.time.now()));
        if (!shared_.ready) co_await work_->wait(shared_.time.now() + milliseconds{200});
    }
}

base::boot_time circuits::next_moment(base::boot_time now) {
    auto when = std::max(next_load_, now + milliseconds{20});
    for (const auto& name : not_closed_) {
        lane* l = shared_.lanes.find(name);
        if (l == nullptr || l->circuit.state() != circuit_state::open) continue;
        if (l->circuit.open_until() > now) when = std::min(when, l->circuit.open_until());
    }
    return when;
}

asio::awaitable<void> circuits::load() {
    refresh_due_ = false;
    auto rows = co_await shared_.store.load_circuits();
    const auto now = shared_.time.now();
    next_load_ = now + (!not_closed_.empty() ? seconds{1} : shared_.listening ? seconds{5} : seconds{1});
    if (!rows) co_return;
    std::unordered_set<std::string> named;
    for (const auto& row : *rows) {
        named.insert(row.lane);
        if (reporting_.contains(row.lane)) continue;
        lane& l = shared_.lanes.at(row.lane);
        if (!l.to) set_up_lane(shared_, l);
        l.last_error = row.last_error;
        adopt(l, row.state, row.opens_for);
    }
    const std::vector<std::string> before(not_closed_.begin(), not_closed_.end());
    for (const auto& name : before) {
        lane* l = shared_.lanes.find(name);
        if (l != nullptr && !named.contains(name) && !reporting_.contains(name)) adopt(*l, circuit_state::closed, milliseconds{0});
    }
}

void circuits::adopt(lane& l, circuit_state state, base::milliseconds opens_for) {
    const auto before = l.circuit.state();
    l.circuit.adopt(state, shared_.time.now() + opens_for);
    if (state == circuit_state::closed) {
        if (not_closed_.erase(l.name) == 0 && before == circuit_state::closed) return;
        l.probes_granted = 0;
        l.window.restart();
        shared_.metrics.circuit_state(l.name, 0);
        shared_.lanes.refresh(l);
        claims_.wake_lane(l.name);
        telemetry::log(telemetry::level::info, "circuit_closed", "the lane is delivered to again", {{"lane", std::string_view{l.name}}});
        return;
    }
    if (!not_closed_.insert(l.name).second && before == state) return;
    shared_.metrics.circuit_state(l.name, metric_value(state));
    if (state == circuit_state::open) {
        l.probes_granted = 0;
        // A probe is the first request after an outage: the pause before it makes the window start anew.
        telemetry::log(telemetry::level::warn, "circuit_open", "the lane is not delivered to for a while; nothing is lost and no attempt is used up",
                       {{"lane", std::string_view{l.name}}, {"for_ms", static_cast<std::int64_t>(opens_for.count())}, {"error", std::string_view{l.last_error}}});
    }
    shared_.lanes.refresh(l);
    if (l.probes_granted == 0) hand_back_queue(shared_, l);
}

void circuits::observe(lane& l, lifecycle::circuit_event event, bool probe, std::string_view error) {
    if (event == lifecycle::circuit_event::fault) l.last_error = std::string(error);
    if (!l.to) return;
    switch (l.circuit.step(l.to->settings.circuit, event, probe)) {
        case lifecycle::circuit_action::none: return;
        case lifecycle::circuit_action::trip:
            not_closed_.insert(l.name);
            reporting_.insert(l.name);
            hand_back_queue(shared_, l);
            shared_.group.spawn(trip(l.name, l.last_error));
            return;
        case lifecycle::circuit_action::report_ok:
        case lifecycle::circuit_action::report_fault:
            reporting_.insert(l.name);
            shared_.group.spawn(report(l.name, event == lifecycle::circuit_event::success, l.last_error));
            return;
    }
}

asio::awaitable<void> circuits::trip(std::string name, std::string error) {
    const lane* l = shared_.lanes.find(name);
    const auto settings = l != nullptr && l->to ? l->to->settings.circuit : lifecycle::circuit_settings{};
    auto row = co_await shared_.store.circuit_trip(name, settings, error);
    reporting_.erase(name);
    lane& now_lane = shared_.lanes.at(name);
    shared_.metrics.circuit_transition("open");
    shared_.metrics.circuit_state(name, 2);
    const auto opens_for = row ? row->opens_for : settings.open_for;
    not_closed_.erase(name);  // so that adopt() sees a change
    adopt(now_lane, row ? row->state : circuit_state::open, opens_for);
    work_->ring();
}

asio::awaitable<void> circuits::report(std::string name, bool ok, std::string error) {
    const lane* l = shared_.lanes.find(name);
    const auto settings = l != nullptr && l->to ? l->to->settings.circuit : lifecycle::circuit_settings{};
    auto state = co_await shared_.store.circuit_result(name, shared_.relay_id, ok, settings, error);
    reporting_.erase(name);
    if (state) shared_.metrics.circuit_transition(lifecycle::to_string(*state));
    refresh();
}

asio::awaitable<void> circuits::ask_for_probes() {
    const std::vector<std::string> names(not_closed_.begin(), not_closed_.end());
    for (const auto& name : names) {
        lane* l = shared_.lanes.find(name);
        const auto now = shared_.time.now();
        if (l == nullptr || reporting_.contains(name) || !l->usable() || !l->circuit.wants_probe(now)) continue;
        if (l->probes_granted > 0 || l->probe_asked || l->in_flight > 0 || !l->queue.empty()) continue;
        l->probe_asked = true;
        const auto& settings = l->to->settings;
        auto granted = co_await shared_.store.circuit_probe(name, shared_.relay_id, settings.circuit.half_open_probes, settings.timeout + seconds{10});
        l->probe_asked = false;
        if (stopping_ || !granted || !*granted) continue;
        l->circuit.adopt(circuit_state::half_open, shared_.time.now());
        l->probes_granted = 1;
        shared_.metrics.circuit_state(name, 1);
        shared_.lanes.refresh(*l);
        claims_.wake_lane(name);
        claims_.wake_lane_at(name, shared_.time.now() + seconds{1});
    }
}

}  // namespace outboxd::relay
