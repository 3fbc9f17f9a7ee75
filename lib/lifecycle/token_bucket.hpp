// Rate of one lane: tokens per second with a burst, this relay's share of the endpoint's rate. Floor 1, pure.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace outboxd::lifecycle {

class token_bucket {
public:
    token_bucket() = default;
    // `per_second` <= 0: unlimited. `burst` is at least one token. A bucket that had no rate before begins with `first` tokens; negative: with its burst.
    void configure(double per_second, double burst, base::boot_time now, double first = -1.0) noexcept {
        if (per_second_ <= 0) tokens_ = first < 0 ? std::max(1.0, burst) : first;
        refill(now);
        per_second_ = per_second;
        burst_ = std::max(1.0, burst);
        tokens_ = std::min(tokens_, burst_);
    }
    [[nodiscard]] bool limited() const noexcept { return per_second_ > 0; }
    [[nodiscard]] bool try_take(base::boot_time now) noexcept {
        if (!limited()) return true;
        refill(now);
        if (tokens_ < 1.0 - 1e-9) return false;
        tokens_ -= 1.0;
        return true;
    }
    // A token that was taken and not used.
    void give_back() noexcept {
        if (limited()) tokens_ = std::min(burst_, tokens_ + 1.0);
    }
    // When the next token is there.
    [[nodiscard]] base::boot_time next(base::boot_time now) noexcept {
        if (!limited()) return now;
        refill(now);
        if (tokens_ >= 1.0 - 1e-9) return now;
        // Rounded up: a moment that is a fraction of a nanosecond too early would be asked for again and again.
        return now + std::chrono::ceil<base::boot_clock::duration>(std::chrono::duration<double>((1.0 - tokens_) / per_second_));
    }
    // Tokens that will have come by `horizon` from now: how many rows are worth claiming.
    [[nodiscard]] int within(base::boot_time now, base::milliseconds horizon) noexcept {
        refill(now);
        return static_cast<int>(std::min(1e6, tokens_ + per_second_ * std::chrono::duration<double>(horizon).count()));
    }

private:
    void refill(base::boot_time now) noexcept {
        if (now <= at_) return;
        if (limited()) tokens_ = std::min(burst_, tokens_ + per_second_ * std::chrono::duration<double>(now - at_).count());
        at_ = now;
    }
    double per_second_{0};
    double burst_{1};
    double tokens_{0};
    base::boot_time at_{};
};

}  // namespace outboxd::lifecycle
