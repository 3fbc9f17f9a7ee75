#include "relay/lane_setup.hpp"

#include <algorithm>

namespace outboxd::relay {

void set_up_lane(engine& shared, lane& l) {
    l.to = l.is_direct() ? shared.endpoints.direct() : shared.endpoints.find(l.name);
    if (!l.to) return;
    l.window.configure(l.to->settings.concurrency, l.to->settings.adaptive);
    apply_rate(shared, l);
    shared.lanes.refresh(l);
}

void apply_rate(engine& shared, lane& l) {
    if (!l.to) return;
    const auto& rate = l.to->settings.rate;
    const double share = rate ? rate->per_second / std::max(1, shared.live_relays) : 0.0;
    const double burst = rate ? (rate->burst > 0 ? rate->burst : std::max(1.0, rate->per_second / 10)) / std::max(1, shared.live_relays) : 1.0;
    l.bucket.configure(share, burst, shared.time.now());
}

}  // namespace outboxd::relay
