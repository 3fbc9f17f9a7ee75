// Whether an endpoint fails or delivers, as this relay sees it, and when that is news for outbox.endpoint. Floor 1, pure.
//
// The rule of auto_disable: every attempt that was sent has failed for `after`, and no relay had one success meanwhile. Written on change only: an endpoint counts as failing when its first failure is `patience` old
// and no success came since, so that a hiccup writes nothing; it has recovered when a success is younger than the written moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace outboxd::lifecycle {

class endpoint_health {
public:
    enum class news : std::uint8_t {
        none,
        failing,    // write failing_since
        recovered,  // clear it
        give_up,    // failing for so long that the endpoint is to be disabled
        delivers,   // works as ever: last_success_at is out of date
    };
    static constexpr base::milliseconds patience{10'000};
    static constexpr base::milliseconds success_interval{3'600'000};

    void success(base::boot_time now) noexcept {
        last_success_ = now;
        failing_since_.reset();
    }
    void failure(base::boot_time now) noexcept {
        if (!failing_since_) failing_since_ = now;
    }
    // Enabled again, or another address: what was seen before says nothing any more.
    void forget() noexcept { failing_since_.reset(); }

    // `written`: since when the database says it fails, on the local boot clock. `after`: auto_disable.after.
    [[nodiscard]] news look(base::boot_time now, std::optional<base::boot_time> written, std::optional<base::milliseconds> after) const noexcept {
        if (failing_since_) {
            if (!written) return now - *failing_since_ >= patience ? news::failing : news::none;
            return after && now - *written >= *after ? news::give_up : news::none;
        }
        if (!last_success_) return news::none;
        if (written) return *last_success_ > *written ? news::recovered : news::none;
        return !noted_ || *last_success_ - *noted_ >= success_interval ? news::delivers : news::none;
    }
    // The last success was written.
    void noted() noexcept { noted_ = last_success_; }

    [[nodiscard]] std::optional<base::boot_time> failing_since() const noexcept { return failing_since_; }
    [[nodiscard]] std::optional<base::boot_time> last_success() const noexcept { return last_success_; }

private:
    std::optional<base::boot_time> failing_since_;
    std::optional<base::boot_time> last_success_;
    std::optional<base::boot_time> noted_;
};

}  // namespace outboxd::lifecycle
