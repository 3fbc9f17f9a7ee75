// A relay's right to its claims, and the time fence in front of every request. Floor 1, pure.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace outboxd::lifecycle {

class lease {
public:
    explicit lease(base::milliseconds length) : length_(length) {}
    // A heartbeat that was sent at `sent` was confirmed: the lease runs from before the sending, so it never looks longer than the database's.
    void renewed(base::boot_time sent) noexcept { until_ = sent + length_; }
    void lost() noexcept { until_ = base::boot_time{}; }
    void resize(base::milliseconds length) noexcept { length_ = length; }
    [[nodiscard]] bool alive(base::boot_time now) const noexcept { return now < until_; }
    // A request with this deadline may start: the lease outlasts it by a margin of a second, or a tenth of the lease where that is less.
    [[nodiscard]] bool covers(base::boot_time now, base::milliseconds request_deadline) const noexcept { return now + request_deadline + margin() < until_; }
    [[nodiscard]] base::boot_time until() const noexcept { return until_; }
    [[nodiscard]] base::milliseconds margin() const noexcept { return std::min(base::milliseconds{1000}, length_ / 10); }
    [[nodiscard]] base::milliseconds heartbeat_interval() const noexcept { return length_ / 6; }
    [[nodiscard]] base::milliseconds length() const noexcept { return length_; }

private:
    base::milliseconds length_;
    base::boot_time until_{};
};

}  // namespace outboxd::lifecycle
