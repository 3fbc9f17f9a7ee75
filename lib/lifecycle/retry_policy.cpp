#include "lifecycle/retry_policy.hpp"

#include <algorithm>
#include <cmath>

namespace outboxd::lifecycle {
namespace {

using base::milliseconds;
using namespace std::chrono_literals;

constexpr milliseconds longest_pause = 24h * 30;
constexpr milliseconds longest_hint = 24h;

struct named_policy {
    std::string_view name;
    retry_policy policy;
};

retry_policy scheduled(std::vector<milliseconds> schedule, double jitter) {
    retry_policy policy;
    policy.max_attempts = static_cast<int>(schedule.size()) + 1;
    policy.schedule = std::move(schedule);
    policy.jitter = jitter;
    return policy;
}

retry_policy growing(milliseconds first, double factor, milliseconds max, int max_attempts, double jitter) {
    retry_policy policy;
    policy.first = first;
    policy.factor = factor;
    policy.max = max;
    policy.max_attempts = max_attempts;
    policy.jitter = jitter;
    return policy;
}

const std::vector<named_policy>& presets() {
    // agent-zero names only 10s x 2^n; an hour's cap and 12 attempts are ours: the last one comes about 3 h 25 m after the first.
    static const std::vector<named_policy> table{
        {"standard-webhooks", scheduled({5s, 5min, 30min, 2h, 5h, 10h, 10h}, 0.2)},
        {"adcp", growing(1s, 2.0, 30s, 3, 0.5)},
        {"agent-zero", growing(10s, 2.0, 1h, 12, 0.2)},
        {"e2a", scheduled({1min, 5min, 15min, 1h, 4h, 8h, 16h}, 0.2)},
    };
    return table;
}

// The pause before jitter, in milliseconds. Doubles, so that factor^60 becomes a large number and no overflow.
double plain_pause(const retry_policy& policy, int attempt) {
    const auto index = static_cast<std::size_t>(std::max(attempt, 1) - 1);
    if (!policy.schedule.empty()) {
        return static_cast<double>(policy.schedule[std::min(index, policy.schedule.size() - 1)].count());
    }
    const double cap = static_cast<double>(policy.max > 0ms ? policy.max.count() : longest_pause.count());
    const double grown = static_cast<double>(policy.first.count()) * std::pow(policy.factor, static_cast<double>(index));
    // Also where 0 * infinity or a negative base made no number of it.
    return std::isfinite(grown) ? std::min(grown, cap) : (policy.first > 0ms ? cap : 0.0);
}

}  // namespace

std::optional<retry_policy> retry_preset(std::string_view name) {
    for (const auto& entry : presets()) {
        if (entry.name == name) return entry.policy;
    }
    return std::nullopt;
}

std::vector<std::string_view> retry_preset_names() {
    std::vector<std::string_view> names;
    for (const auto& entry : presets()) names.push_back(entry.name);
    return names;
}

std::optional<milliseconds> next_pause(const retry_policy& policy, int attempt, int max_attempts_override, double random) {
    const int own_limit = policy.schedule.empty() ? policy.max_attempts : static_cast<int>(policy.schedule.size()) + 1;
    const int limit = max_attempts_override > 0 ? max_attempts_override : own_limit;
    if (attempt >= limit) return std::nullopt;
    const double spread = 1.0 + std::clamp(policy.jitter, 0.0, 1.0) * (2.0 * std::clamp(random, 0.0, 1.0) - 1.0);
    const double pause = std::clamp(plain_pause(policy, attempt) * spread, 0.0, static_cast<double>(longest_pause.count()));
    return milliseconds{static_cast<milliseconds::rep>(std::llround(pause))};
}

milliseconds with_hint(milliseconds pause, std::optional<milliseconds> retry_after) {
    return retry_after ? std::max(pause, std::min(*retry_after, longest_hint)) : pause;
}

}  // namespace outboxd::lifecycle
