#include "relay/claimer.hpp"

// What the next claim asks for: how many rows, of which lanes, from which bounds. No effects; the claim itself is in claimer.cpp.
#include <algorithm>

namespace outboxd::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t max_asked_lanes = 256;
constexpr int discover_rows = 4;                   // of a lane seen for the first time; it is asked by name from then on
constexpr std::int64_t max_claim_bytes = 8 << 20;  // what one reply may bring, so that the client library's buffers stay small
constexpr auto warm_time = seconds{2};
constexpr auto bound_life = seconds{5};

}  // namespace

// How many rows of this lane are worth having: what may start now, and as many ahead as it finished lately.
int claimer::wanted(lane& l, base::boot_time now) const {
    if (!l.usable()) return 0;
    const int waiting = static_cast<int>(l.queue.size());
    if (!l.circuit.admits()) return std::max(0, l.probes_granted - waiting);
    const int ahead = std::min(l.window.limit(), l.rate.count(now));
    int want = shared_.lanes.startable(l) + ahead - waiting;
    if (l.bucket.limited()) want = std::min(want, l.bucket.within(now, seconds{1}) - waiting);
    const auto& limits = shared_.lanes.limits();
    if (l.held_rows() > 0) {
        if (shared_.lanes.bytes() >= limits.max_bytes - limits.max_bytes / 8) return 0;
        const auto left = limits.max_bytes / 2 - l.bytes;
        want = static_cast<int>(std::min<std::int64_t>(want, left / std::max<std::int64_t>(1, l.average_size)));
    }
    return std::max(0, want);
}

claimer::plan claimer::make_plan() {
    const auto now = shared_.time.now();
    take_due_wakes(now);
    if (look_again_ && now >= *look_again_) {
        look_again_.reset();
        flag_fresh_ = asking_;
        wake_all();
    }
    if (now >= next_poll_) {
        next_poll_ = now + shared_.settings->relay.poll_interval;
        if (!discover_round_) cursor_.clear();
        discover_round_ = true;
        warm_due_ = true;
        shared_.lanes.trim(now);
    }
    plan p;
    const auto& limits = shared_.lanes.limits();
    const int held = shared_.lanes.in_flight() + shared_.lanes.queued();
    const int rows = std::min(shared_.settings->relay.claim_batch, 2 * limits.max_in_flight - held);
    const auto bytes = limits.max_bytes - shared_.lanes.bytes();
    if (rows <= 0 || bytes <= 0) {
        p.room_short = true;
        return p;
    }
    p.request.relay = shared_.relay_id;
    p.request.epoch = shared_.epoch;
    p.request.max_rows = rows;
    p.request.max_bytes = std::min(bytes, max_claim_bytes);
    p.request.fetch_max = std::min<std::int64_t>(shared_.endpoints.largest_payload(), std::int64_t{1} << 30);
    // Known lanes never crowd out those that nobody has seen yet: a quarter of the rows is theirs whenever it is time to look for them.
    const bool discover = discover_round_ || (!wakeups_cover_all() && now >= next_discovery_);
    const int for_known = discover ? std::max(1, rows - std::max(1, rows / 4)) : rows;
    const auto most_lanes = std::min(max_asked_lanes, static_cast<std::size_t>(std::max(1, for_known / 2)));
    ask_woken(p, most_lanes, now);
    ask_active(p, most_lanes, now);
    // Lanes share one claim evenly; what one leaves over the next claim brings.
    if (!p.asked.empty()) {
        const int share = std::max(1, for_known / static_cast<int>(p.asked.size()));
        for (auto& a : p.request.lanes) a.limit = std::min(a.limit, share);
    }
    if (discover) plan_discovery(p, p.asked.empty() ? rows : rows - for_known, now);
    return p;
}

void claimer::list(lane& l) {
    if (l.listed) return;
    l.listed = true;
    active_.push_back(&l);
}

void claimer::ask_woken(plan& p, std::size_t most, base::boot_time now) {
    for (std::size_t n = woken_.size(); n > 0 && p.asked.size() < most; --n) {
        lane& l = *woken_.front();
        woken_.pop_front();
        l.woken = false;
        const int want = wanted(l, now);
        if (want > 0) {
            ask(p, l, want, now);
        } else if (l.usable()) {
            l.hot = true;  // asked as soon as it has room
            list(l);
        }
    }
}

void claimer::ask_active(plan& p, std::size_t most, base::boot_time now) {
    const bool ask_warm = warm_due_;
    warm_due_ = false;
    for (std::size_t n = active_.size(); n > 0 && p.asked.size() < most; --n) {
        lane& l = *active_.front();
        active_.pop_front();
        if (!l.hot && now - l.last_row > warm_time) {
            l.listed = false;
            continue;
        }
        active_.push_back(&l);
        if (!l.hot && !ask_warm) continue;
        if (std::find(p.asked.begin(), p.asked.end(), &l) != p.asked.end()) continue;
        const int want = wanted(l, now);
        // A claim for a few rows of a lane that is well supplied does not pay.
        const int worth = l.queue.empty() ? 1 : std::max(1, std::min(shared_.settings->relay.claim_batch, l.window.limit() / 2));
        if (want >= worth) {
            ask(p, l, want, now);
        } else if (l.hot && l.usable()) {
            p.room_short = true;
        }
    }
}

void claimer::ask(plan& p, lane& l, int want, base::boot_time now) {
    if (now - l.bound_dropped >= bound_life) {
        l.bound.reset();
        l.bound_dropped = now;
    }
    p.request.lanes.push_back({l.name, want, l.bound, l.after_key});
    p.asked.push_back(&l);
}

void claimer::plan_discovery(plan& p, int rows, base::boot_time now) {
    p.request.discover_after = cursor_;
    p.request.discover_lanes = std::max(4, rows / discover_rows);
    p.request.discover_limit = std::min(discover_rows, std::max(1, rows));
    for (auto& [name, l] : shared_.lanes.lanes()) {
        if (l->to && wanted(*l, now) == 0) p.request.exclude.push_back(name);
    }
}

void claimer::take_due_wakes(base::boot_time now) {
    while (!timed_.empty() && timed_.top().when <= now) {
        const std::string name = timed_.top().lane;
        timed_.pop();
        wake_lane(name);
    }
}

}  // namespace outboxd::relay
