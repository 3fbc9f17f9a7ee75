// When a delivery is tried again. Floor 1, pure: the random number comes as an argument.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"

namespace outboxd::lifecycle {

// Either a schedule of pauses (attempts = pauses + 1) or first * factor^(n-1) up to max.
struct retry_policy {
    std::vector<base::milliseconds> schedule;
    base::milliseconds first{0};  // `base` in the configuration
    double factor{2.0};
    base::milliseconds max{0};
    int max_attempts{8};
    double jitter{0.2};  // pause * (1 +- jitter), uniformly

    friend bool operator==(const retry_policy&, const retry_policy&) = default;
};

// Presets `standard-webhooks`, `adcp`, `agent-zero`, `e2a` (contract section 4). nullopt: unknown name.
[[nodiscard]] std::optional<retry_policy> retry_preset(std::string_view name);
[[nodiscard]] std::vector<std::string_view> retry_preset_names();

// The pause after attempt `attempt` (1 = the first) failed; nullopt: attempts are used up. `max_attempts_override` > 0 replaces the policy's (an event's own max_attempts;
// past the end of a schedule its last pause repeats). `random` is uniform in [0,1). Never overflows, never below 0, at most 30 days.
[[nodiscard]] std::optional<base::milliseconds> next_pause(const retry_policy& policy, int attempt, int max_attempts_override, double random);

// The later of the schedule's pause and the receiver's hint, the hint clamped to 24 h.
[[nodiscard]] base::milliseconds with_hint(base::milliseconds pause, std::optional<base::milliseconds> retry_after);

}  // namespace outboxd::lifecycle
