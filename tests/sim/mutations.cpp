#include "mutations.hpp"

#include <algorithm>
#include <map>

namespace outboxd::sim {

using testkit::broken_rules;
using testkit::store_layer;

namespace {

bool later(const ports::lane_bound& a, const ports::lane_bound& b) { return a.due_at != b.due_at ? a.due_at > b.due_at : a.id > b.id; }

// Believes in its lease whatever the heartbeat says.
class unfenced final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<ports::beat_reply> beat(ports::beat_request request) override {
        auto reply = co_await below_.beat(std::move(request));
        if (!reply) co_return ports::beat_reply{true, 1, last_};
        reply->alive = true;
        last_ = reply->now;
        co_return reply;
    }

private:
    base::wall_time last_{};
};

// Probes without asking.
class circuit_blind final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<bool> circuit_probe(std::string, std::int64_t, int, base::milliseconds) override { co_return true; }
};

// Says that every other batch of results is written, and does not write it.
class forgetful final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<std::vector<std::int64_t>> settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) override {
        if (++calls_ % 2 == 0) return below_.settle(relay, batch);
        return pretend(batch);
    }

private:
    static ports::async_result<std::vector<std::int64_t>> pretend(std::vector<lifecycle::settlement> batch) {
        std::vector<std::int64_t> ids;
        for (const auto& s : batch) ids.push_back(s.delivery);
        co_return ids;
    }
    int calls_{0};
};

// Never looks for claims whose reply was lost.
class unreconciled final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<std::int64_t> release_unknown(std::int64_t, std::vector<std::int64_t>) override { co_return std::int64_t{0}; }
};

// A bound only ever rises.
class bound_keeper final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<ports::claim_reply> claim(ports::claim_request request) override {
        for (auto& ask : request.lanes) {
            auto& highest = bounds_[ask.lane];
            if (ask.bound && (!highest || later(*ask.bound, *highest))) highest = ask.bound;
            ask.bound = highest;
        }
        return below_.claim(std::move(request));
    }

private:
    std::map<std::string, std::optional<ports::lane_bound>> bounds_;
};

// Does not see when a delivery expires.
class expiry_blind final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<ports::claim_reply> claim(ports::claim_request request) override {
        auto reply = co_await below_.claim(std::move(request));
        if (reply) {
            for (auto& row : reply->rows) row.expires_at.reset();
        }
        co_return reply;
    }
};

// Sees every endpoint as enabled.
class pause_blind final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<ports::shared_state> load_endpoints() override {
        auto reply = co_await below_.load_endpoints();
        if (reply) {
            for (auto& row : reply->endpoints) {
                row.enabled = true;
                row.paused = false;
            }
        }
        co_return reply;
    }
};

// Never looks after the dead.
class no_rescuer final : public store_layer {
public:
    using store_layer::store_layer;
    ports::async_result<std::vector<ports::rescued_row>> rescue(std::int64_t, int, int) override { co_return std::vector<ports::rescued_row>{}; }
};

template <class Layer>
mutation layered(std::string name, bool clock_jumps = false) {
    return {std::move(name), {}, [](ports::delivery_store& below) -> std::unique_ptr<store_layer> { return std::make_unique<Layer>(below); }, clock_jumps};
}

mutation broken(std::string name, bool broken_rules::* rule, bool clock_jumps = false) {
    return {std::move(name), [rule](broken_rules& rules) { rules.*rule = true; }, {}, clock_jumps};
}

}  // namespace

const std::vector<mutation>& mutations() {
    static const std::vector<mutation> all{
        broken("settle without fence", &broken_rules::settle_unfenced),
        broken("claimed rows are claimed again", &broken_rules::claims_the_claimed),
        broken("a claim of an earlier session is served", &broken_rules::epoch_unchecked),
        broken("a relay without a lease is served", &broken_rules::lease_unchecked, true),
        broken("the living are rescued from", &broken_rules::rescues_the_living),
        broken("rescues without end", &broken_rules::rescues_unlimited),
        broken("ordering keys ignored", &broken_rules::order_ignored),
        broken("due_at ignored", &broken_rules::due_ignored),
        broken("uncommitted rows seen", &broken_rules::uncommitted_seen),
        broken("attempts not counted", &broken_rules::attempts_uncounted),
        broken("the body rewritten for a second attempt", &broken_rules::body_rewritten),
        broken("a new id for a second attempt", &broken_rules::id_renewed),
        broken("bound above the safe moment", &broken_rules::snapshot_denied),
        broken("a retired relay keeps its claims", &broken_rules::retire_keeps_claims),
        broken("events fanned out twice", &broken_rules::fans_out_again),
        broken("events that the trigger missed are never swept", &broken_rules::never_sweeps),
        broken("a retry deletes the delivery", &broken_rules::loses_retries),
        layered<unfenced>("lease unchecked before a request"),
        layered<circuit_blind>("circuit ignored"),
        layered<forgetful>("results reported as written that are not"),
        layered<unreconciled>("claims whose reply was lost are left alone"),
        layered<bound_keeper>("bound never dropped", true),
        layered<expiry_blind>("expires_at ignored"),
        layered<pause_blind>("paused and disabled endpoints sent to"),
        layered<no_rescuer>("the dead are never rescued from"),
    };
    return all;
}

}  // namespace outboxd::sim
