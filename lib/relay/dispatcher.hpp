// Gives the slots on the wire to the lanes: order, fairness, concurrency, rate, circuit, lease. Floor 4.
//
// Fairness: a free slot goes to the ready lane with the least in flight; an eighth of all slots is kept for lanes with nothing in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lifecycle/lease.hpp"
#include "ports/time_source.hpp"
#include "relay/lane.hpp"

namespace outboxd::relay {

struct dispatcher_limits {
    int max_in_flight{1024};
    std::int64_t max_bytes{64LL << 20};
};

class dispatcher {
public:
    dispatcher(dispatcher_limits limits, lifecycle::lease& lease, ports::time_source& time);

    // `start` begins the attempts of a held delivery and goes on with take() until that returns null; it must call finished() after each.
    void on_start(std::function<void(held_ptr)> start) { start_ = std::move(start); }
    void set_limits(dispatcher_limits limits) { limits_ = limits; }

    // Lanes are made on first sight and kept: names are bounded by the table's own lanes; idle ones are dropped by trim().
    [[nodiscard]] lane& at(const std::string& name);
    [[nodiscard]] lane* find(const std::string& name);
    [[nodiscard]] std::unordered_map<std::string, std::unique_ptr<lane>>& lanes() noexcept { return lanes_; }
    void trim(base::boot_time now);

    // Takes a claimed row into its lane. False: this relay holds it already.
    bool enqueue(held_ptr row);
    // Starts what may start, a few rows at once; the rest is for the next call, which on_more() is asked for.
    void dispatch();
    // Leaves it to the next call altogether.
    void dispatch_soon() {
        if (more_ && !ready_.empty()) more_();
    }
    // The next delivery for a worker that has just finished one; null: nothing may start now.
    [[nodiscard]] held_ptr take();
    // The attempt of a delivery of this lane is over (settled or not).
    void finished(lane& l, std::int64_t bytes);
    // A claimed row that is handed back at once counts as held until that is written. False: this relay holds it already.
    bool hold(std::int64_t delivery) { return held_ids_.insert(delivery).second; }
    // The delivery is no longer this relay's: settled, or lost.
    void forget(std::int64_t delivery) { held_ids_.erase(delivery); }
    // Something that decides about the lane changed (endpoint, circuit, window).
    void refresh(lane& l);
    // All rows waiting in the lane, taken out to be handed back.
    [[nodiscard]] std::vector<held_ptr> withdraw(lane& l);
    void lease_renewed();
    void stop() noexcept { stopping_ = true; }

    [[nodiscard]] int in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] int queued() const noexcept { return queued_; }
    [[nodiscard]] const dispatcher_limits& limits() const noexcept { return limits_; }
    [[nodiscard]] std::vector<std::int64_t> held_ids() const { return {held_ids_.begin(), held_ids_.end()}; }
    // How many more rows of this lane could start now, as far as slots and its window go.
    [[nodiscard]] int startable(lane& l) const noexcept;
    // When the next rate-limited lane gets a token; max(): none waits.
    [[nodiscard]] base::boot_time next_token() const noexcept { return rate_list_.empty() ? base::boot_time::max() : rate_list_.begin()->first; }
    // Lanes whose next row waits for a token, the next one first.
    [[nodiscard]] std::vector<std::string> rate_waiting(std::size_t most) const;
    // Puts lanes whose token has come back among the ready ones and dispatches.
    void tokens_due();
    // Called when dispatch() should be called again soon: rows are left to start, or next_token() changed.
    void on_more(std::function<void()> more) { more_ = std::move(more); }

private:
    [[nodiscard]] bool eligible(const lane& l) const noexcept;
    [[nodiscard]] lane* choose();
    void wait_for_token(lane& l, base::boot_time until);
    [[nodiscard]] int reserve() const noexcept { return limits_.max_in_flight / 8; }

    dispatcher_limits limits_;
    lifecycle::lease& lease_;
    ports::time_source& time_;
    std::function<void(held_ptr)> start_;
    std::function<void()> more_;
    std::unordered_map<std::string, std::unique_ptr<lane>> lanes_;
    std::unordered_set<std::int64_t> held_ids_;
    std::map<std::pair<int, std::uint64_t>, lane*> ready_;  // (in flight, turn) -> lane
    std::multimap<base::boot_time, lane*> rate_list_;
    std::vector<lane*> fence_list_;
    std::uint64_t turn_{0};
    int in_flight_{0};
    int queued_{0};
    std::int64_t bytes_{0};
    bool stopping_{false};
    bool dispatching_{false};
};

}  // namespace outboxd::relay
