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

// A granted probe starts within this, or goes back; the database holds its slot for an attempt and some slack longer.
constexpr auto probe_window = seconds{20};
constexpr auto probe_slack = seconds{10};
// After a probe that proved nothing, or that found no row.
constexpr auto probe_pause = seconds{1};
constexpr auto longest_probe_pause = seconds{30};

int metric_value(circuit_state s) { return s == circuit_state::closed ? 0 : s == circuit_state::half_open ? 1 : 2; }

}  // namespace

circuits::circuits(engine& shared, claimer& claims) : shared_(shared), claims_(claims), work_(shared.time.make_alarm()) {}

// The other relays need not wait for the end of what this one has not used.
void circuits::stop() {
    stopping_ = true;
    for (const auto& name : not_closed_) {
        if (lane* l = shared_.lanes.find(name); l != nullptr) give_back_unused(*l, shared_.time.now());
    }
    work_->ring();
}

asio::awaitable<void> circuits::run() {
    while (!stopping_) {
        const auto now = shared_.time.now();
        if (shared_.ready && (refresh_due_ || now >= next_load_)) (void)co_await load();
        if (shared_.ready) co_await ask_for_probes();
        if (stopping_) co_return;
        if (!refresh_due_) co_await work_->wait(next_moment(shared_.time.now()));
        if (!shared_.ready) co_await work_->wait(shared_.time.now() + milliseconds{200});
    }
}

base::boot_time circuits::next_moment(base::boot_time now) {
    auto when = std::max(next_load_, now + milliseconds{20});
    for (const auto& name : not_closed_) {
        const lane* l = shared_.lanes.find(name);
        if (l == nullptr) continue;
        for (const auto moment : {l->circuit.open_until(), l->probe_pause, l->probes_granted > 0 ? l->probe_until : base::boot_time{}}) {
            if (moment > now) when = std::min(when, moment);
        }
    }
    return when;
}

asio::awaitable<bool> circuits::load() {
    refresh_due_ = false;
    auto rows = co_await shared_.store.load_circuits();
    const auto now = shared_.time.now();
    next_load_ = now + (!not_closed_.empty() ? seconds{1} : shared_.listening ? seconds{5} : seconds{1});
    if (!rows) co_return false;
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
    co_return true;
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
        telemetry::log(telemetry::level::warn, "circuit_open", "the lane is not delivered to for a while; nothing is lost and no attempt is used up",
                       {{"lane", std::string_view{l.name}}, {"for_ms", static_cast<std::int64_t>(opens_for.count())}, {"error", std::string_view{l.last_error}}});
    }
    shared_.lanes.refresh(l);
    if (l.probes_granted == 0) hand_back_queue(shared_, l);
}

void circuits::observe(lane& l, lifecycle::circuit_event event, bool probe, std::string_view error, std::optional<base::milliseconds> retry_in) {
    if (probe) --l.probes_on_wire;
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
        case lifecycle::circuit_action::report_ok: start_report(l, true); return;
        case lifecycle::circuit_action::report_fault: start_report(l, false); return;
        case lifecycle::circuit_action::give_back:
            l.probe_pause = shared_.time.now() + std::clamp<base::milliseconds>(retry_in.value_or(probe_pause), probe_pause, longest_probe_pause);
            start_report(l, std::nullopt);
            return;
    }
}

void circuits::probe_not_sent(lane& l) {
    --l.probes_on_wire;
    if (l.circuit.state() != circuit_state::half_open) return;
    ++l.probes_granted;
    claims_.wake_lane(l.name);
}

void circuits::start_report(lane& l, std::optional<bool> ok) {
    reporting_.insert(l.name);
    shared_.group.spawn(report(l.name, ok, l.last_error));
}

// No row came for them: another relay may have one, or a row comes later.
void circuits::give_back_unused(lane& l, base::boot_time now) {
    l.probe_pause = now + probe_pause;
    for (; l.probes_granted > 0; --l.probes_granted) start_report(l, std::nullopt);
    hand_back_queue(shared_, l);
}

asio::awaitable<void> circuits::trip(std::string name, std::string error) {
    const lane* l = shared_.lanes.find(name);
    const auto settings = l != nullptr && l->to ? l->to->settings.circuit : lifecycle::circuit_settings{};
    auto row = co_await shared_.store.circuit_trip(name, settings, error);
    reporting_.erase(reporting_.find(name));
    lane& now_lane = shared_.lanes.at(name);
    shared_.metrics.circuit_transition("open");
    shared_.metrics.circuit_state(name, 2);
    const auto opens_for = row ? row->opens_for : settings.open_for;
    not_closed_.erase(name);  // so that adopt() sees a change
    adopt(now_lane, row ? row->state : circuit_state::open, opens_for);
    work_->ring();
}

asio::awaitable<void> circuits::report(std::string name, std::optional<bool> ok, std::string error) {
    const lane* l = shared_.lanes.find(name);
    const auto settings = l != nullptr && l->to ? l->to->settings.circuit : lifecycle::circuit_settings{};
    auto state = co_await shared_.store.circuit_result(name, shared_.relay_id, ok, settings, error);
    reporting_.erase(reporting_.find(name));
    if (state && ok && *state != circuit_state::half_open) shared_.metrics.circuit_transition(lifecycle::to_string(*state));
    refresh();
}

asio::awaitable<void> circuits::ask_for_probes() {
    const std::vector<std::string> names(not_closed_.begin(), not_closed_.end());
    for (const auto& name : names) {
        bool more = true;
        while (more && !stopping_) more = co_await ask_for_probe(name);
    }
}

// One more probe for this lane. False: none is wanted now, or the other relays have them all.
asio::awaitable<bool> circuits::ask_for_probe(std::string name) {
    lane* l = shared_.lanes.find(name);
    const auto now = shared_.time.now();
    if (l == nullptr || reporting_.contains(name)) co_return false;
    if (l->probes_granted > 0 && now >= l->probe_until) give_back_unused(*l, now);
    if (!l->usable() || !l->circuit.wants_probe(now) || now < l->probe_pause || l->probe_asked) co_return false;
    const auto& settings = l->to->settings;
    if (l->probes_granted + l->probes_on_wire >= settings.circuit.half_open_probes) co_return false;
    l->probe_asked = true;
    auto granted = co_await shared_.store.circuit_probe(name, shared_.relay_id, settings.circuit.half_open_probes, settings.timeout + probe_window + probe_slack);
    l->probe_asked = false;
    if (stopping_ || !granted || !*granted) co_return false;
    if (l->circuit.state() != circuit_state::half_open) shared_.metrics.circuit_transition("half_open");
    l->circuit.adopt(circuit_state::half_open, shared_.time.now());
    ++l->probes_granted;
    l->probe_until = shared_.time.now() + probe_window;
    shared_.metrics.circuit_state(name, 1);
    shared_.lanes.refresh(*l);
    claims_.wake_lane(name);
    claims_.wake_lane_at(name, shared_.time.now() + seconds{1});
    co_return true;
}

}  // namespace outboxd::relay
