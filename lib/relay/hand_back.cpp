#include "relay/hand_back.hpp"

namespace outboxd::relay {

void hand_back_queue(engine& shared, lane& l) {
    for (auto& row : shared.lanes.withdraw(l)) {
        settled one;
        one.what.delivery = row->row.delivery;
        one.what.outcome = lifecycle::outcome::released;
        one.row = std::move(row);
        shared.settlements.add(std::move(one));
    }
}

void hand_back_all(engine& shared) {
    for (auto& [name, l] : shared.lanes.lanes()) {
        if (!l->queue.empty()) hand_back_queue(shared, *l);
    }
}

}  // namespace outboxd::relay
