#include "relay/dispatcher.hpp"

#include <algorithm>

namespace outboxd::relay {

namespace {

// Sending takes about 10 us: answers that have come meanwhile, and the next claim, do not wait for a whole batch.
constexpr int most_at_once = 32;

}  // namespace

dispatcher::dispatcher(dispatcher_limits limits, lifecycle::lease& lease, ports::time_source& time) : limits_(limits), lease_(lease), time_(time) {}

lane& dispatcher::at(const std::string& name) {
    auto& slot = lanes_[name];
    if (!slot) {
        slot = std::make_unique<lane>();
        slot->name = name;
    }
    return *slot;
}

lane* dispatcher::find(const std::string& name) {
    const auto it = lanes_.find(name);
    return it == lanes_.end() ? nullptr : it->second.get();
}

void dispatcher::trim(base::boot_time now) {
    constexpr std::size_t keep = 1024;
    if (lanes_.size() <= keep) return;
    std::erase_if(lanes_, [&](const auto& entry) {
        const lane& l = *entry.second;
        const bool quiet = l.held_rows() == 0 && !l.woken && !l.listed && !l.ready && !l.fence_wait && l.rate_wait == base::boot_time{} && !l.probe_asked && l.probes_granted == 0 && l.probes_on_wire == 0;
        return quiet && l.circuit.admits() && l.circuit.consecutive_failures() == 0 && l.is_direct() && now - l.last_row > std::chrono::minutes{10};
    });
}

bool dispatcher::enqueue(held_ptr row) {
    if (!held_ids_.insert(row->row.delivery).second) return false;
    lane& l = *row->home;
    l.bytes += static_cast<std::int64_t>(row->row.event.body.size());
    bytes_ += static_cast<std::int64_t>(row->row.event.body.size());
    ++queued_;
    l.queue.push_back(std::move(row));
    refresh(l);
    return true;
}

bool dispatcher::eligible(const lane& l) const noexcept {
    if (l.queue.empty() || !l.to || l.fence_wait || l.rate_wait != base::boot_time{}) return false;
    if (!l.usable()) return false;
    if (!l.circuit.admits()) return l.probes_granted > 0;
    return l.in_flight < l.window.limit();
}

void dispatcher::refresh(lane& l) {
    const bool want = eligible(l);
    if (l.ready && (!want || l.ready_key.first != l.in_flight)) {
        ready_.erase(l.ready_key);
        l.ready = false;
    }
    if (want && !l.ready) {
        l.ready_key = {l.in_flight, ++turn_};
        ready_.emplace(l.ready_key, &l);
        l.ready = true;
    }
}

lane* dispatcher::choose() {
    const auto now = time_.now();
    while (!ready_.empty() && !stopping_ && in_flight_ < limits_.max_in_flight) {
        lane& l = *ready_.begin()->second;
        if (l.in_flight > 0 && in_flight_ >= limits_.max_in_flight - reserve()) return nullptr;
        if (!lease_.covers(now, l.to->settings.timeout)) {
            l.fence_wait = true;
            fence_list_.push_back(&l);
            refresh(l);
            continue;
        }
        if (!l.bucket.try_take(now)) {
            wait_for_token(l, l.bucket.next(now));
            continue;
        }
        return &l;
    }
    return nullptr;
}

void dispatcher::wait_for_token(lane& l, base::boot_time until) {
    l.rate_wait = until;
    rate_list_.emplace(until, &l);
    refresh(l);
    if (rate_list_.begin()->second == &l && more_) more_();
}

void dispatcher::tokens_due() {
    const auto now = time_.now();
    while (!rate_list_.empty() && rate_list_.begin()->first <= now) {
        lane& l = *rate_list_.begin()->second;
        rate_list_.erase(rate_list_.begin());
        l.rate_wait = base::boot_time{};
        refresh(l);
    }
    dispatch();
}

held_ptr dispatcher::take() {
    lane* l = choose();
    if (l == nullptr) return nullptr;
    held_ptr row = std::move(l->queue.front());
    l->queue.pop_front();
    --queued_;
    ++l->in_flight;
    ++in_flight_;
    if (!l->circuit.admits()) {
        row->probe = true;
        --l->probes_granted;
        ++l->probes_on_wire;
    }
    refresh(*l);
    return row;
}

void dispatcher::dispatch() {
    // start_ may run its first step at once and come back here through finished(); one loop is enough.
    if (dispatching_) return;
    dispatching_ = true;
    int started = 0;
    while (started < most_at_once) {
        held_ptr row = take();
        if (!row) break;
        start_(std::move(row));
        ++started;
    }
    dispatching_ = false;
    if (started == most_at_once) dispatch_soon();
}

void dispatcher::finished(lane& l, std::int64_t bytes) {
    --l.in_flight;
    --in_flight_;
    l.bytes -= bytes;
    bytes_ -= bytes;
    l.rate.add(time_.now());
    refresh(l);
}

std::vector<held_ptr> dispatcher::withdraw(lane& l) {
    std::vector<held_ptr> rows;
    rows.reserve(l.queue.size());
    for (auto& row : l.queue) {
        const auto size = static_cast<std::int64_t>(row->row.event.body.size());
        l.bytes -= size;
        bytes_ -= size;
        --queued_;
        rows.push_back(std::move(row));
    }
    l.queue.clear();
    refresh(l);
    return rows;
}

void dispatcher::lease_renewed() {
    auto waiting = std::move(fence_list_);
    fence_list_.clear();
    for (lane* l : waiting) {
        l->fence_wait = false;
        refresh(*l);
    }
    dispatch();
}

std::vector<std::string> dispatcher::rate_waiting(std::size_t most) const {
    std::vector<std::string> names;
    for (auto it = rate_list_.begin(); it != rate_list_.end() && names.size() < most; ++it) names.push_back(it->second->name);
    return names;
}

int dispatcher::startable(lane& l) const noexcept {
    const int by_window = l.circuit.admits() ? l.window.limit() - l.in_flight : l.probes_granted;
    const int usable_slots = limits_.max_in_flight - in_flight_ - (l.in_flight > 0 ? reserve() : 0);
    // Rows that wait in other lanes will take slots as well; a lane with nothing held may always have one.
    const int share = std::max(usable_slots, l.held_rows() == 0 ? 1 : 0);
    return std::max(0, std::min(by_window, share));
}

}  // namespace outboxd::relay
