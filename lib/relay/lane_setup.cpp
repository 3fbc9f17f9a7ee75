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
    if (!rate) {
        l.bucket.configure(0, 1, shared.time.now());
        return;
    }
    const double relays = std::max(1, shared.live_relays);
    // Without a burst of its own half a second's worth may be saved up, so that a busy moment of this process loses nothing; the lane begins with one token, so that relays that start together send no burst.
    const double burst = rate->burst > 0 ? rate->burst : rate->per_second / 2;
    l.bucket.configure(rate->per_second / relays, burst / relays, shared.time.now(), rate->burst > 0 ? std::max(1.0, burst / relays) : 1.0);
}

}  // namespace outboxd::relay
