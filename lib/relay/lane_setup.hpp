// Binds a lane to its endpoint and carries the endpoint's settings into the lane's limits. Floor 4.
#pragma once

#include "relay/engine.hpp"

namespace outboxd::relay {

// Finds the lane's endpoint (or the defaults, for a direct URL) and applies its limits; the lane keeps its history.
void set_up_lane(engine& shared, lane& l);
// This relay's share of the endpoint's rate.
void apply_rate(engine& shared, lane& l);

}  // namespace outboxd::relay
