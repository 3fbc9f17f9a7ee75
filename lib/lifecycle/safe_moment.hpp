// How far a lane's lower bound may rise without missing a row that commits late. Floor 1, pure.
//
// A row's due_at is never before the moment it was written (server clock), and a transaction writes only after it has its id. So of all transactions still running in a snapshot (ids >= xmin), none wrote
// before the moment of an earlier claim whose snapshot ended (xmax) at or below that xmin. That moment is safe: rows that are still to appear are all due after it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/time.hpp"

namespace outboxd::lifecycle {

class safe_moment {
public:
    // One claim's report: the server's clock, and before its scans the oldest transaction at work and the next id to be given out.
    void observe(base::wall_time now, std::uint64_t xmin, std::uint64_t xmax) {
        while (!samples_.empty() && samples_.front().xmax <= xmin) {
            safe_ = samples_.front().at;
            samples_.pop_front();
        }
        if (xmax <= xmin) {
            safe_ = now;
            samples_.clear();
            return;
        }
        // Samples a few milliseconds apart are enough; a long transaction elsewhere must not make the list grow without end.
        if (!samples_.empty() && (samples_.back().xmax == xmax || now - samples_.back().at < std::chrono::milliseconds{2})) return;
        if (samples_.size() < max_samples) samples_.push_back({now, xmax});
    }
    // Nothing that is still invisible is due before this. nullopt: not known yet, so no bound may be used.
    [[nodiscard]] std::optional<base::wall_time> value() const noexcept { return safe_; }
    void forget() noexcept {
        safe_.reset();
        samples_.clear();
    }

private:
    struct sample {
        base::wall_time at;
        std::uint64_t xmax;
    };
    static constexpr std::size_t max_samples = 4096;
    std::deque<sample> samples_;
    std::optional<base::wall_time> safe_;
};

}  // namespace outboxd::lifecycle
