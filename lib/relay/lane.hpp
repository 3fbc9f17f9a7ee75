// One lane at run time: what this relay holds for it, what it may take on the wire, and where its next claim starts. Floor 4.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lifecycle/circuit.hpp"
#include "lifecycle/concurrency.hpp"
#include "lifecycle/endpoint_health.hpp"
#include "lifecycle/token_bucket.hpp"
#include "ports/delivery_store.hpp"
#include "relay/endpoint_directory.hpp"

namespace outboxd::relay {

struct lane;

// A delivery that this relay has claimed: waiting in its lane, or on the wire.
struct held {
    ports::claimed row;
    std::int64_t relay{0};  // the relay id that claimed it: its settlement is fenced by it
    lane* home{nullptr};
    bool probe{false};      // a half-open probe of the circuit
};
using held_ptr = std::unique_ptr<held>;

// Completions of the last one to two tenths of a second: how far ahead claiming pays.
class recent_rate {
public:
    void add(base::boot_time now) noexcept {
        roll(now);
        ++current_;
    }
    [[nodiscard]] int count(base::boot_time now) noexcept {
        roll(now);
        return current_ + previous_;
    }

private:
    void roll(base::boot_time now) noexcept {
        const auto slot = now.time_since_epoch() / std::chrono::milliseconds{100};
        if (slot == slot_) return;
        previous_ = slot == slot_ + 1 ? current_ : 0;
        current_ = 0;
        slot_ = slot;
    }
    std::int64_t slot_{0};
    int current_{0};
    int previous_{0};
};

struct lane {
    std::string name;
    endpoint_ptr to;             // null while its endpoint is unknown to this relay
    base::boot_time unknown_since{};  // a row came and nothing was known of its endpoint

    // Held rows.
    std::deque<held_ptr> queue;  // claimed, not started
    int in_flight{0};
    std::int64_t bytes{0};       // bodies of both

    // What it may take.
    lifecycle::concurrency window;
    lifecycle::token_bucket bucket;
    lifecycle::circuit circuit;
    std::string last_error;      // for `status` and the circuit's row
    int probes_granted{0};       // half-open probes that the database gave us and that have not started
    int probes_on_wire{0};
    base::boot_time probe_until{};  // a granted probe starts before this, or goes back
    base::boot_time probe_pause{};  // no probe is asked for before this
    bool probe_asked{false};     // a request for one is on its way
    lifecycle::endpoint_health health;
    recent_rate rate;
    bool fence_wait{false};      // not started because the lease does not cover its timeout
    base::boot_time rate_wait{}; // in the rate list until then; zero: not in it

    // Where the next claim starts.
    std::optional<ports::lane_bound> bound;
    base::boot_time bound_dropped{};
    std::string after_key;
    bool hot{false};             // its last claim came back full: there is more
    bool woken{false};           // in the claimer's list of woken lanes
    bool listed{false};          // in the claimer's list of active lanes
    base::boot_time last_row{};  // when a claim last returned rows of it
    std::int64_t average_size{1024};

    // Place in the dispatcher's set of ready lanes.
    bool ready{false};
    std::pair<int, std::uint64_t> ready_key{};

    [[nodiscard]] bool is_direct() const noexcept { return name.starts_with("url:"); }
    [[nodiscard]] bool usable() const noexcept { return to != nullptr && to->usable; }
    [[nodiscard]] int held_rows() const noexcept { return in_flight + static_cast<int>(queue.size()); }
};

}  // namespace outboxd::relay
