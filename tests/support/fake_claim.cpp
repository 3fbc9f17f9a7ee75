// Claim and settle of the outbox in memory.
#include <algorithm>

#include "support/fake_database.hpp"

namespace outboxd::testkit {

namespace {

bool before(const fake_delivery* a, const fake_delivery* b) { return a->due_at != b->due_at ? a->due_at < b->due_at : a->id < b->id; }

}  // namespace

bool fake_database::has_lease(std::int64_t relay) const {
    const auto it = relays.find(relay);
    return it != relays.end() && it->second.lease_until > now();
}

// But for the order of its key.
bool fake_database::ready(const fake_delivery& d, base::wall_time now) const {
    return visible(d) && d.status == "pending" && (!d.claimed_by || broken.claims_the_claimed) && (d.due_at <= now || broken.due_ignored);
}

// A row with an ordering key waits for every older row of the key in its lane that is pending or blocks: only the oldest of these may go.
std::map<std::pair<std::string_view, std::string_view>, std::int64_t> fake_database::heads_of_keys() const {
    std::map<std::pair<std::string_view, std::string_view>, std::int64_t> heads;
    for (const auto& [id, d] : deliveries) {
        if (!d.ordering_key || !visible(d) || (d.status != "pending" && !d.blocks)) continue;
        auto& head = heads.try_emplace({d.lane, *d.ordering_key}, d.event).first->second;
        head = std::min(head, d.event);
    }
    return heads;
}

std::map<std::string, std::vector<fake_delivery*>> fake_database::claimable_by_lane(base::wall_time now) {
    std::map<std::string, std::vector<fake_delivery*>> lanes;
    const auto heads = heads_of_keys();
    for (auto& [id, d] : deliveries) {
        if (!ready(d, now)) continue;
        if (!d.ordering_key || broken.order_ignored || heads.at({d.lane, *d.ordering_key}) == d.event) lanes[d.lane].push_back(&d);
    }
    for (auto& [name, rows] : lanes) std::sort(rows.begin(), rows.end(), before);
    return lanes;
}

base::result<ports::claim_reply> fake_database::claim(const ports::claim_request& request) {
    const bool leased = has_lease(request.relay) || (broken.lease_unchecked && relays.contains(request.relay));
    if (!leased || (relays[request.relay].epoch != request.epoch && !broken.epoch_unchecked)) {
        return base::error{base::errc::lease_lost, "relay " + std::to_string(request.relay) + " has no lease with epoch " + std::to_string(request.epoch), "OB001"};
    }
    ports::claim_reply reply;
    reply.now = now();
    reply.xmax = next_transaction_;
    reply.xmin = open_.empty() || broken.snapshot_denied ? next_transaction_ : *open_.begin();
    auto lanes = claimable_by_lane(reply.now);
    std::vector<fake_delivery*> picked;
    const auto pick = [&](const std::string& lane, int limit, const std::optional<ports::lane_bound>& bound) {
        for (auto* d : lanes[lane]) {
            if (limit == 0) return;
            if (bound && !d->ordering_key && (d->due_at < bound->due_at || (d->due_at == bound->due_at && d->id <= bound->id))) continue;
            picked.push_back(d);
            --limit;
        }
    };
    std::set<std::string> known(request.exclude.begin(), request.exclude.end());
    for (const auto& l : request.lanes) {
        known.insert(l.lane);
        pick(l.lane, l.limit, l.bound);
        if (!l.after_key.empty()) reply.keys.emplace_back(l.lane, "");
    }
    int found = 0;
    reply.wrapped = request.discover_lanes > 0;
    auto at = lanes.upper_bound(request.discover_after);
    for (std::size_t step = 0; step < lanes.size() && request.discover_lanes > 0; ++step, ++at) {
        if (at == lanes.end()) at = lanes.begin();
        if (known.contains(at->first) || at->second.empty()) continue;
        if (found == request.discover_lanes) {
            reply.wrapped = false;
            break;
        }
        ++found;
        reply.cursor = at->first;
        pick(at->first, request.discover_limit, std::nullopt);
    }
    if (reply.wrapped) reply.cursor.clear();
    std::int64_t bytes = 0;
    for (auto* d : picked) {
        const auto need = d->size > request.fetch_max ? 0 : d->size;
        const bool first = reply.rows.empty();
        if (!first && (static_cast<int>(reply.rows.size()) >= request.max_rows || bytes + need > request.max_bytes)) {
            reply.more = static_cast<int>(reply.rows.size()) < request.max_rows;
            break;
        }
        bytes += need;
        if (on_claim) on_claim(*d, request);
        d->claimed_by = request.relay;
        ports::claimed row{d->id, d->endpoint, d->lane, d->ordering_key, d->attempts, d->rescued, d->due_at, d->expires_at, d->size, d->format, d->max_attempts, false, {}};
        const auto event = events.find(d->event);
        row.event_missing = event == events.end();
        if (!row.event_missing) row.event = event->second;
        row.event.id = d->event;
        if (broken.body_rewritten && d->attempts > 0) row.event.body += " ";
        if (broken.id_renewed && d->attempts > 0) row.event.event_id += "-again";
        if (!row.event_missing && d->size > request.fetch_max) {
            row.event.body.clear();
            row.event.body_left_out = true;
        }
        reply.rows.push_back(std::move(row));
    }
    std::sort(reply.rows.begin(), reply.rows.end(), [](const auto& a, const auto& b) { return a.due_at != b.due_at ? a.due_at < b.due_at : a.delivery < b.delivery; });
    return reply;
}

void fake_database::note(const fake_delivery& d, int attempt, std::string outcome, std::int64_t relay, const lifecycle::settlement* s) {
    fake_attempt a{d.id, d.event, attempt, std::move(outcome), 0, {}, {}, std::nullopt, relay};
    if (s != nullptr) {
        a.http_status = s->http_status;
        a.error_class = lifecycle::to_string(s->error_class);
        a.error = s->error;
        if (s->outcome == lifecycle::outcome::retried) a.next_attempt_at = now() + s->retry_in.value_or(base::milliseconds{0});
    }
    if (on_history) on_history(d, a);
    attempts.push_back(std::move(a));
}

bool fake_database::settle_one(std::int64_t relay, const lifecycle::settlement& s) {
    using lifecycle::outcome;
    const auto it = deliveries.find(s.delivery);
    if (it == deliveries.end()) return false;
    auto& d = it->second;
    if (s.outcome != outcome::published && d.claimed_by != relay && !broken.settle_unfenced) return false;
    switch (s.outcome) {
        case outcome::published:
            note(d, d.attempts + 1, "published", relay, &s);
            deliveries.erase(it);
            return true;
        case outcome::expired:
        case outcome::cancelled:
            note(d, d.attempts, std::string{to_string(s.outcome)}, relay, &s);
            deliveries.erase(it);
            return true;
        case outcome::released:
            d.claimed_by.reset();
            d.due_at = now() + s.retry_in.value_or(base::milliseconds{0});
            return true;
        default: break;
    }
    note(d, d.attempts + 1, std::string{to_string(s.outcome)}, relay, &s);
    d.claimed_by.reset();
    if (s.counts && !broken.attempts_uncounted) ++d.attempts;
    if (d.format.empty()) d.format = s.format;
    if (s.outcome == outcome::retried && broken.loses_retries) {
        deliveries.erase(it);
    } else if (s.outcome == outcome::retried) {
        d.due_at = now() + s.retry_in.value_or(base::milliseconds{0});
    } else {
        d.status = "failed";
        d.blocks = s.blocks && d.ordering_key.has_value();
    }
    return true;
}

std::vector<std::int64_t> fake_database::settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) {
    // One result per delivery: a success beats whatever else was said of it.
    std::map<std::int64_t, const lifecycle::settlement*> chosen;
    for (const auto& s : batch) {
        auto& one = chosen[s.delivery];
        if (one == nullptr || (s.outcome == lifecycle::outcome::published && one->outcome != lifecycle::outcome::published)) one = &s;
    }
    std::vector<std::int64_t> changed;
    for (const auto& [id, s] : chosen) {
        if (settle_one(relay, *s)) changed.push_back(id);
    }
    return changed;
}

}  // namespace outboxd::testkit
