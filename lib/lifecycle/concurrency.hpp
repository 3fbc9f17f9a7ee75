// Adaptive concurrency of one lane (additive increase, multiplicative decrease, with a slow start). Floor 1, pure.
//
// The law: a lane starts with 8 requests in flight (or its ceiling). While it is in slow start each quick success adds one, so the window doubles per round trip. The first trouble (timeout, 429, 503, connection fault)
// ends slow start and halves the window; later quick successes add one per window of successes. An answer is quick when it took at most a quarter of the endpoint's timeout. Halvings are at least
// one round of answers apart, so that one burst of failures counts once. The window never leaves [1, ceiling]. After an open circuit closes, restart() begins again from one.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace outboxd::lifecycle {

class concurrency {
public:
    void configure(int ceiling, bool adaptive) noexcept {
        ceiling_ = std::max(1, ceiling);
        adaptive_ = adaptive;
        window_ = std::clamp(window_, 1.0, static_cast<double>(ceiling_));
    }
    [[nodiscard]] int limit() const noexcept { return adaptive_ ? static_cast<int>(window_) : ceiling_; }
    [[nodiscard]] int ceiling() const noexcept { return ceiling_; }
    void success(base::milliseconds took, base::milliseconds timeout) noexcept {
        ++since_cut_;
        if (took * 4 > timeout) return;
        window_ = std::min(static_cast<double>(ceiling_), slow_start_ ? window_ + 1.0 : window_ + 1.0 / window_);
    }
    void trouble() noexcept {
        ++since_cut_;
        slow_start_ = false;
        if (since_cut_ < static_cast<int>(window_)) return;
        since_cut_ = 0;
        window_ = std::max(1.0, window_ / 2.0);
    }
    // After an outage: begin from one request, grow again by slow start.
    void restart() noexcept {
        window_ = 1.0;
        slow_start_ = true;
        since_cut_ = 0;
    }

private:
    static constexpr double initial_window = 8.0;
    int ceiling_{64};
    bool adaptive_{true};
    bool slow_start_{true};
    double window_{initial_window};
    int since_cut_{1 << 20};  // so that the first trouble cuts at once
};

}  // namespace outboxd::lifecycle
