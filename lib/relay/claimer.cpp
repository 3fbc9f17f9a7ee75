#include "relay/claimer.hpp"

#include <algorithm>

#include "base/kill_hook.hpp"
#include "relay/delivery_task.hpp"
#include "relay/hand_back.hpp"
#include "relay/lane_setup.hpp"
#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto safety_margin = milliseconds{20};  // due_at is read a moment before the transaction has its id
constexpr int busy_claims_per_second = 400;
constexpr int quiet_rows_per_second = 200;
constexpr auto look_again_pause = milliseconds{20};
constexpr std::size_t max_timed_wakes = 100'000;

bool past(const ports::lane_bound& a, const ports::lane_bound& b) { return a.due_at != b.due_at ? a.due_at > b.due_at : a.id > b.id; }

// From the sending of a claim until its rows are filed.
class under_way {
public:
    explicit under_way(settler& settlements) : settlements_(settlements) { settlements_.claim_under_way(true); }
    ~under_way() { settlements_.claim_under_way(false); }
    under_way(const under_way&) = delete;
    under_way& operator=(const under_way&) = delete;

private:
    settler& settlements_;
};

}  // namespace

claimer::claimer(engine& shared) : shared_(shared), work_(shared.time.make_alarm()) {}

void claimer::stop() {
    stopping_ = true;
    work_->ring();
}

void claimer::wake_lane(std::string_view name) {
    lane& l = shared_.lanes.at(std::string(name));
    if (!l.to) set_up_lane(shared_, l);
    if (!l.woken) {
        l.woken = true;
        woken_.push_back(&l);
    }
    work_->ring();
}

void claimer::wake_all() {
    if (!discover_round_) cursor_.clear();
    discover_round_ = true;
    warm_due_ = true;
    work_->ring();
}

void claimer::look_again_soon() {
    if (!asking_ || look_again_) return;
    look_again_ = shared_.time.now() + look_again_pause;
    work_->ring();
}

void claimer::wake_lane_at(std::string_view name, base::boot_time when) {
    if (timed_.size() >= max_timed_wakes) return;  // the poll finds the rest
    const bool earlier = timed_.empty() || when < timed_.top().when;
    timed_.push({when, std::string(name)});
    if (earlier) work_->ring();
}

void claimer::forget_bounds() {
    safe_.forget();
    for (auto& [name, l] : shared_.lanes.lanes()) l->bound.reset();
}

void claimer::registered() {
    forget_bounds();
    asking_ = flag_known_ = flag_fresh_ = false;
    unseen_below_.reset();
    wake_all();
}

bool claimer::may_claim(base::boot_time now) const { return shared_.ready && shared_.relay_id != 0 && shared_.lease.alive(now) && !shared_.settlements.failing(); }

asio::awaitable<void> claimer::run() {
    next_poll_ = shared_.time.now();
    while (!stopping_) {
        const auto now = shared_.time.now();
        if (!may_claim(now)) {
            co_await work_->wait(now + milliseconds{100});
            continue;
        }
        const bool reconcile = !reconcile_at_.empty() && reconcile_at_.front() <= now;
        if (session_doubtful_ || reconcile) {
            co_await recover();
            if (session_doubtful_) {
                co_await work_->wait(shared_.time.now() + milliseconds{100});
                continue;
            }
        }
        plan p = make_plan();
        if (!p.worthwhile()) {
            co_await idle(p.room_short);
            continue;
        }
        const bool claimed = co_await claim_once(std::move(p));
        if (!claimed && !stopping_) {
            const auto until = shared_.time.now() + milliseconds{std::min(2000, 100 << std::min(failures_, 5))};
            while (!stopping_ && shared_.time.now() < until) co_await work_->wait(until);
        }
        if (claimed) co_await ask_for_wakeups();
    }
}

asio::awaitable<bool> claimer::claim_once(plan p) {
    const auto begun = shared_.time.now();
    const under_way guard(shared_.settlements);
    auto reply = co_await shared_.store.claim(p.request);
    const auto now = shared_.time.now();
    if (!reply) {
        for (lane* l : p.asked) {
            l->hot = true;
            list(*l);
        }
        after_failure(reply.error());
        co_return false;
    }
    if (!reply->rows.empty()) base::kill_point(base::kill_step::after_claim);
    // The lease was lost meanwhile: the rows are not ours any more.
    if (p.request.relay != shared_.relay_id) co_return false;
    shared_.metrics.claim_took(std::chrono::duration<double>(now - begun).count());
    if (failing_) telemetry::log(telemetry::level::info, "claim_recovered", "claiming again");
    failing_ = false;
    failures_ = 0;
    last_claim_ = now;
    last_claim_unix_ = std::chrono::duration<double>(reply->now.time_since_epoch()).count();
    shared_.metrics.claimed_at(last_claim_unix_);
    shared_.server_clock(reply->now, begun);
    safe_.observe(reply->now, reply->xmin, reply->xmax);
    note_writers(*reply);
    if (p.request.discover_lanes > 0) {
        next_discovery_ = now + std::max<base::boot_clock::duration>(milliseconds{5}, (now - begun) * 10);
        if (!reply->more) cursor_ = reply->cursor;  // what was left behind is looked for again
        if (reply->wrapped && !reply->more && discover_round_) {
            discover_round_ = false;
            empty_round_ = !round_found_rows_ && reply->rows.empty();
            round_found_rows_ = false;
        }
    }
    if (!reply->rows.empty()) {
        round_found_rows_ = discover_round_;
        empty_round_ = false;
    }
    count(reply->rows.size(), p.request.max_rows, now);
    file(*reply, p);
    co_return true;
}

void claimer::note_writers(const ports::claim_reply& reply) {
    if (flag_fresh_) {
        flag_fresh_ = false;
        unseen_below_.reset();
        if (reply.xmin < reply.xmax) unseen_below_ = reply.xmax;
    } else if (unseen_below_ && reply.xmin >= *unseen_below_) {
        unseen_below_.reset();
        wake_all();  // what they committed meanwhile
    }
}

void claimer::after_failure(const base::error& why) {
    ++failures_;
    session_doubtful_ = true;
    if (why.code == base::errc::database_unreachable) claims_doubtful_ = true;
    last_error_ = why.text;
    if (why.code == base::errc::lease_lost) {
        if (on_lease_lost_) on_lease_lost_();
        return;
    }
    if (!failing_ && why.code != base::errc::cancelled) {
        failing_ = true;
        telemetry::log(telemetry::level::warn, "claim_failed", "claiming does not work now; trying again", {{"error", std::string_view{why.text}}});
    }
    if (why.code == base::errc::database_schema && on_schema_fault_) on_schema_fault_(why);
}

void claimer::count(std::size_t rows, int limit, base::boot_time now) {
    if (now - window_start_ >= seconds{1}) {
        const bool adjacent = now - window_start_ < seconds{2};
        last_window_claims_ = adjacent ? window_claims_ : 0;
        last_window_rows_ = adjacent ? window_rows_ : 0;
        window_start_ = now;
        window_claims_ = window_rows_ = window_full_ = 0;
    }
    ++window_claims_;
    window_rows_ += static_cast<int>(rows);
    if (static_cast<int>(rows) >= limit / 2) ++window_full_;
    small_pause_ms_ = rows > 0 ? 2 : std::min(small_pause_ms_ * 2, 1000);
}

void claimer::file(ports::claim_reply& reply, plan& p) {
    const auto now = shared_.time.now();
    move_bounds(reply, p);
    for (auto& [name, key] : reply.keys) {
        if (lane* l = shared_.lanes.find(name)) l->after_key = key;
    }
    for (auto& row : reply.rows) file_row(std::move(row), now);
    // The database works on the next claim while these are sent.
    if (static_cast<int>(reply.rows.size()) * 2 >= p.request.max_rows) {
        shared_.lanes.dispatch_soon();
    } else {
        shared_.lanes.dispatch();
    }
}

void claimer::file_row(ports::claimed row, base::boot_time now) {
    if (shared_.settlements.taken_already(row.delivery, row.attempts)) shared_.lanes.forget(row.delivery);
    lane& l = shared_.lanes.at(row.lane);
    if (!l.to) set_up_lane(shared_, l);
    if (!l.to) {
        // Read anew since, and still not there: it was removed or renamed while the row's transaction was open, or by plain SQL.
        if (l.unknown_since != base::boot_time{} && shared_.endpoints_read_at > l.unknown_since) {
            auto cancelled = without_request(row.delivery, lifecycle::outcome::cancelled, lifecycle::error_class::local, "endpoint '" + l.name + "' does not exist any more");
            settle_at_once(l, std::move(cancelled), std::move(row));
            return;
        }
        if (l.unknown_since == base::boot_time{}) l.unknown_since = now;
        if (on_unknown_endpoint_) on_unknown_endpoint_();
        hand_back(std::move(row), l, seconds{1});
        return;
    }
    l.unknown_since = {};
    if (!l.usable() || stopping_) {
        hand_back(std::move(row), l, milliseconds{0});
        return;
    }
    l.last_row = now;
    list(l);
    l.average_size = (l.average_size * 7 + row.size) / 8 + 1;
    auto one = std::make_unique<held>();
    one->row = std::move(row);
    one->relay = shared_.relay_id;
    one->home = &l;
    if (!shared_.lanes.enqueue(std::move(one))) look_for_strays(now);  // claimed again after a lost reply
}

// A claim of a row that is held already may stay behind in our name when what was held ends: whatever nobody holds is handed back later.
void claimer::look_for_strays(base::boot_time now) {
    const auto when = now + shared_.lease.length() / 2;
    if (reconcile_at_.empty() || reconcile_at_.back() < when) reconcile_at_.push_back(when);
}

void claimer::hand_back(ports::claimed row, lane& l, base::milliseconds pause) {
    auto released = without_request(row.delivery, lifecycle::outcome::released, lifecycle::error_class::none, {});
    released.retry_in = pause;
    settle_at_once(l, std::move(released), std::move(row));
}

void claimer::settle_at_once(lane& l, lifecycle::settlement what, ports::claimed row) {
    if (!shared_.lanes.hold(row.delivery)) {
        look_for_strays(shared_.time.now());
        return;
    }
    settled one;
    one.what = std::move(what);
    one.row = std::make_unique<held>();
    one.row->row = std::move(row);
    one.row->relay = shared_.relay_id;
    one.row->home = &l;
    shared_.settlements.add(std::move(one));
}

void claimer::move_bounds(const ports::claim_reply& reply, plan& p) {
    struct seen {
        int rows{0};
        std::optional<ports::lane_bound> last;
    };
    std::unordered_map<std::string_view, seen> by_lane;
    for (const auto& row : reply.rows) {
        auto& s = by_lane[row.lane];
        ++s.rows;
        const ports::lane_bound at{row.due_at, row.delivery};
        if (!row.ordering_key && (!s.last || past(at, *s.last))) s.last = at;
    }
    const auto safe = safe_.value();
    for (std::size_t i = 0; i < p.asked.size(); ++i) {
        lane& l = *p.asked[i];
        const auto& s = by_lane[l.name];
        const bool full = s.rows >= p.request.lanes[i].limit || static_cast<int>(reply.rows.size()) >= p.request.max_rows || reply.more;
        l.hot = reply.more || (s.rows > 0 && (full || s.rows * 2 >= p.request.lanes[i].limit));
        if (l.hot) list(l);
        if (!safe) continue;
        const ports::lane_bound ceiling{*safe - safety_margin, 0};
        std::optional<ports::lane_bound> next = s.last;
        if (!full && (!next || past(ceiling, *next))) next = ceiling;  // nothing older is left to find
        if (next && past(*next, ceiling)) next = ceiling;
        if (next && (!l.bound || past(*next, *l.bound))) l.bound = next;
    }
    // A lane that discovery found is hot when it gave all it was asked for.
    for (const auto& [name, s] : by_lane) {
        lane& l = shared_.lanes.at(std::string(name));
        const bool asked = std::find(p.asked.begin(), p.asked.end(), &l) != p.asked.end();
        if (!asked && (reply.more || s.rows >= p.request.discover_limit)) l.hot = true;
    }
}

// After a claim whose reply never came: a later session number takes the old one's rights, then whatever it claimed without telling us is handed back. Done again later, since the old session may still have been at work.
asio::awaitable<void> claimer::recover() {
    const auto now = shared_.time.now();
    if (session_doubtful_) {
        auto epoch = co_await shared_.store.bump_epoch(shared_.relay_id);
        if (!epoch) {
            after_failure(epoch.error());
            co_return;
        }
        shared_.epoch = *epoch;
        reconcile_at_ = {now, now + shared_.lease.length() / 2, now + shared_.lease.length()};
    }
    if (claims_doubtful_) {
        // A server that crashed may have forgotten the latest claims: others may have those rows by now, and all of them their old due_at.
        claims_doubtful_ = false;
        hand_back_all(shared_);
        forget_bounds();
    }
    auto released = co_await shared_.store.release_unknown(shared_.relay_id, shared_.lanes.held_ids());
    if (!released) {
        after_failure(released.error());
        co_return;
    }
    session_doubtful_ = false;
    std::erase_if(reconcile_at_, [&](base::boot_time t) { return t <= now; });
    if (*released > 0) {
        forget_bounds();
        telemetry::log(telemetry::level::info, "claims_found", "claims whose reply was lost were handed back", {{"count", *released}});
    }
    wake_all();
}

base::boot_time claimer::next_moment() const {
    auto when = next_poll_;
    if (!timed_.empty()) when = std::min(when, timed_.top().when);
    if (look_again_) when = std::min(when, *look_again_);
    if (!reconcile_at_.empty()) when = std::min(when, reconcile_at_.front());
    return when;
}

asio::awaitable<void> claimer::idle(bool room_short) {
    const auto now = shared_.time.now();
    auto until = next_moment();
    if (room_short) {
        until = std::min(until, now + milliseconds{100});
    } else if (!wakeups_cover_all()) {
        if (!asking_ && shared_.settings->relay.notify && shared_.listening && small_pause_ms_ > 50) co_await ask_for_wakeups();
        const bool soon = shared_.listening && !asking_;
        if (!wakeups_cover_all()) until = std::min(until, now + milliseconds{soon ? std::min(small_pause_ms_, 50) : std::max(small_pause_ms_, 10)});
    }
    waiting_for_room_ = room_short;
    const bool rung = co_await work_->wait(until);
    waiting_for_room_ = false;
    if (!rung && !wakeups_cover_all() && !room_short) {
        warm_due_ = true;
        small_pause_ms_ = std::min(small_pause_ms_ * 2, 1000);
    }
}

// Wake-ups pay while claims come back small; while claiming back to back they only cost the writers.
bool claimer::should_ask() const {
    if (!shared_.settings->relay.notify || !shared_.listening) return false;
    if (asking_) return window_claims_ < busy_claims_per_second && window_full_ < 20;
    if (small_pause_ms_ > 50) return true;
    return shared_.time.now() - window_start_ > milliseconds{500} && window_full_ == 0 && window_rows_ < quiet_rows_per_second / 2 && last_window_rows_ < quiet_rows_per_second &&
           window_claims_ < busy_claims_per_second / 2;
}

asio::awaitable<void> claimer::ask_for_wakeups() {
    const bool ask = should_ask();
    if (flag_known_ && ask == asking_) co_return;
    auto written = co_await shared_.store.set_wake(shared_.relay_id, ask);
    flag_known_ = static_cast<bool>(written);
    if (!written) {
        asking_ = false;
        co_return;
    }
    asking_ = ask;
    flag_fresh_ = ask;
    unseen_below_.reset();
    small_pause_ms_ = 2;
    if (asking_) wake_all();  // what was committed before the flag was seen
}

}  // namespace outboxd::relay
