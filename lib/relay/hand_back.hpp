// Hands rows back unsent: a release uses up no attempt and leaves no trace in the history. Floor 4.
#pragma once

#include "relay/engine.hpp"

namespace outboxd::relay {

// Everything waiting in the lane.
void hand_back_queue(engine& shared, lane& l);
// Everything waiting in every lane.
void hand_back_all(engine& shared);

}  // namespace outboxd::relay
