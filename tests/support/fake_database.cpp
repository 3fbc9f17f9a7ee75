#include "support/fake_database.hpp"

#include <algorithm>

namespace outboxd::testkit {

namespace {

bool pattern_matches(const std::string& pattern, const std::string& type) {
    if (pattern == "*" || pattern == type) return true;
    return pattern.ends_with(".*") && type.starts_with(pattern.substr(0, pattern.size() - 1)) && type.size() > pattern.size() - 1;
}

bool before(const fake_delivery* a, const fake_delivery* b) { return a->due_at != b->due_at ? a->due_at < b->due_at : a->id < b->id; }

}  // namespace

std::uint64_t fake_database::begin() {
    open_.insert(next_transaction_);
    return next_transaction_++;
}

void fake_database::commit(std::uint64_t transaction) { open_.erase(transaction); }

void fake_database::rollback(std::uint64_t transaction) {
    std::erase_if(deliveries, [&](const auto& d) { return d.second.transaction == transaction; });
    open_.erase(transaction);
}

std::vector<std::string> fake_database::matches(const fake_event& e) const {
    std::vector<std::string> names;
    for (const auto& [name, endpoint] : endpoints) {
        const auto& tenant = endpoint.row.tenant_id;
        if (tenant && tenant != e.tenant_id) continue;
        const bool subscribed = std::any_of(endpoint.events.begin(), endpoint.events.end(), [&](const auto& p) { return pattern_matches(p, e.event_type); });
        if (e.endpoint ? *e.endpoint == name : subscribed) names.push_back(name);
    }
    return names;
}

void fake_database::fan_out(std::int64_t event, const fake_event& e, std::uint64_t transaction) {
    fake_delivery d;
    d.event = event;
    d.ordering_key = e.ordering_key;
    d.due_at = std::max(e.deliver_at.value_or(base::wall_time::min()), now());
    d.expires_at = e.expires_at;
    d.size = static_cast<std::int64_t>(e.body.size());
    d.max_attempts = e.max_attempts;
    d.transaction = transaction;
    const auto add = [&](std::optional<std::string> endpoint, std::string lane, std::string status) {
        d.id = next_delivery_++;
        d.endpoint = std::move(endpoint);
        d.lane = std::move(lane);
        d.status = std::move(status);
        deliveries[d.id] = d;
    };
    if (!e.url.empty()) {
        add(std::nullopt, e.lane.empty() ? "url:test" : e.lane, "pending");
        return;
    }
    const auto names = matches(e);
    for (const auto& name : names) add(name, name, "pending");
    if (names.empty()) add(std::nullopt, "", "unrouted");
}

std::int64_t fake_database::insert(const fake_event& e, std::uint64_t transaction) {
    const auto id = insert_unseen(e);
    unseen_.erase(id);
    fan_out(id, e, transaction);
    return id;
}

std::int64_t fake_database::insert_unseen(const fake_event& e) {
    const auto id = next_event_++;
    wire::event row;
    row.id = id;
    row.event_id = "event-" + std::to_string(id);
    row.event_type = e.event_type;
    row.body = e.body;
    row.body_is_json = e.is_json;
    row.url = e.url;
    row.tenant_id = e.tenant_id;
    row.created_at = now();
    events[id] = std::move(row);
    inserted_[id] = e;
    unseen_.insert(id);
    return id;
}

void fake_database::add_endpoint(fake_endpoint e) {
    endpoint_changed();
    const auto name = e.row.name;
    endpoints[name] = std::move(e);
}

bool fake_database::has_lease(std::int64_t relay) const {
    const auto it = relays.find(relay);
    return it != relays.end() && it->second.lease_until > now();
}

// A row with an ordering key waits for every older row of the key in its lane that is pending or blocks.
bool fake_database::claimable(const fake_delivery& d, base::wall_time now) const {
    if (!visible(d) || d.status != "pending" || (d.claimed_by && !broken.claims_the_claimed) || (d.due_at > now && !broken.due_ignored)) return false;
    if (!d.ordering_key || broken.order_ignored) return true;
    return std::none_of(deliveries.begin(), deliveries.end(), [&](const auto& o) {
        const auto& older = o.second;
        return visible(older) && older.lane == d.lane && older.ordering_key == d.ordering_key && older.event < d.event && (older.status == "pending" || older.blocks);
    });
}

std::map<std::string, std::vector<fake_delivery*>> fake_database::claimable_by_lane(base::wall_time now) {
    std::map<std::string, std::vector<fake_delivery*>> lanes;
    for (auto& [id, d] : deliveries) {
        if (claimable(d, now)) lanes[d.lane].push_back(&d);
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
        if (!first && (static_cast<int>(reply.rows.size()) >= request.max_rows || bytes + need > request.max_bytes)) break;
        bytes += need;
        if (on_claim) on_claim(*d, request.relay);
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

ports::registration fake_database::register_relay(base::milliseconds lease) {
    relays[next_relay_] = fake_relay{0, false, false, now() + lease};
    return {next_relay_++, 0};
}

ports::beat_reply fake_database::beat(const ports::beat_request& request) {
    const auto it = relays.find(request.relay);
    const bool alive = it != relays.end();
    if (alive) {
        it->second.lease_until = now() + request.lease;
        it->second.listening = request.listening;
    }
    const auto live = std::count_if(relays.begin(), relays.end(), [&](const auto& r) { return r.second.lease_until > now(); });
    return {alive, static_cast<int>(live), now()};
}

std::optional<int> fake_database::bump_epoch(std::int64_t relay) {
    const auto it = relays.find(relay);
    if (it == relays.end()) return std::nullopt;
    return ++it->second.epoch;
}

std::int64_t fake_database::release_unknown(std::int64_t relay, const std::vector<std::int64_t>& held) {
    std::int64_t released = 0;
    for (auto& [id, d] : deliveries) {
        if (d.claimed_by != relay || std::find(held.begin(), held.end(), id) != held.end()) continue;
        d.claimed_by.reset();
        d.due_at = std::max(d.due_at, now());
        ++released;
    }
    return released;
}

std::int64_t fake_database::retire_relay(std::int64_t relay) {
    const auto released = broken.retire_keeps_claims ? 0 : release_unknown(relay, {});
    relays.erase(relay);
    return released;
}

std::vector<ports::rescued_row> fake_database::rescue(std::int64_t relay, int max_rescues, int limit) {
    std::vector<ports::rescued_row> rows;
    for (auto& [id, d] : deliveries) {
        if (!d.claimed_by || *d.claimed_by == relay || static_cast<int>(rows.size()) == limit) continue;
        const auto owner = relays.find(*d.claimed_by);
        if (owner == relays.end() || (owner->second.lease_until > now() && !broken.rescues_the_living)) continue;
        const auto dead = *d.claimed_by;
        d.claimed_by.reset();
        d.due_at = now();
        const bool failed = ++d.rescued > max_rescues && !broken.rescues_unlimited;
        if (failed) d.status = "failed";
        note(d, d.attempts + 1, failed ? "failed" : "lost", dead);
        attempts.back().error = failed ? "interrupted " + std::to_string(d.rescued) + " times" : "relay " + std::to_string(dead) + " lost its lease";
        rows.push_back({id, d.lane, dead, failed ? "failed" : "lost"});
    }
    std::erase_if(relays, [&](const auto& r) {
        return r.first != relay && r.second.lease_until <= now() && std::none_of(deliveries.begin(), deliveries.end(), [&](const auto& d) { return d.second.claimed_by == r.first; });
    });
    return rows;
}

std::int64_t fake_database::route(int limit, base::milliseconds grace) {
    std::vector<std::int64_t> waiting;
    for (const auto& [id, d] : deliveries) {
        if (d.status == "unrouted" && visible(d)) waiting.push_back(id);
    }
    std::int64_t routed = 0;
    for (const auto id : waiting) {
        const auto event = deliveries[id].event;
        if (routed == limit || matches(inserted_[event]).empty() || events[event].created_at + grace < now()) continue;
        deliveries.erase(id);
        fan_out(event, inserted_[event], 0);
        ++routed;
    }
    return routed;
}

std::int64_t fake_database::sweep(int batch) {
    if (broken.never_sweeps) return 0;
    if (broken.fans_out_again && !inserted_.empty()) unseen_.insert(inserted_.rbegin()->first);
    std::int64_t found = 0;
    while (!unseen_.empty() && found < batch) {
        const auto event = *unseen_.begin();
        unseen_.erase(unseen_.begin());
        fan_out(event, inserted_[event], 0);
        ++found;
    }
    return found;
}

ports::circuit_row fake_database::circuit_trip(const std::string& lane, const lifecycle::circuit_settings& settings, const std::string& error) {
    using lifecycle::circuit_state;
    const auto it = circuits.find(lane);
    if (it == circuits.end() || it->second.state == circuit_state::half_open) {
        fake_circuit c = it == circuits.end() ? fake_circuit{} : it->second;
        if (it != circuits.end()) ++c.opens;
        c.state = circuit_state::open;
        c.successes = c.probes = 0;
        c.failures = settings.failures;
        c.last_error = error;
        c.open_until = now() + std::min(settings.open_for * (1 << std::min(c.opens - 1, 20)), settings.max_open);
        circuits[lane] = c;
    }
    const auto& c = circuits[lane];
    return {lane, c.state, std::max(std::chrono::duration_cast<base::milliseconds>(c.open_until - now()), base::milliseconds{0}), c.last_error};
}

bool fake_database::circuit_probe(const std::string& lane, int max_probes, base::milliseconds hold) {
    using lifecycle::circuit_state;
    const auto it = circuits.find(lane);
    if (it == circuits.end()) return false;
    auto& c = it->second;
    const bool passed = c.state == circuit_state::open && c.open_until <= now();
    const bool slot = c.state == circuit_state::half_open && (broken.probes_unlimited || c.probes < max_probes || c.probe_until <= now());
    if (!passed && !slot) return false;
    if (passed) c.successes = 0;
    c.probes = passed || c.probe_until <= now() ? 1 : c.probes + 1;
    c.state = circuit_state::half_open;
    c.probe_until = now() + hold;
    return true;
}

lifecycle::circuit_state fake_database::circuit_result(const std::string& lane, std::optional<bool> ok, const lifecycle::circuit_settings& settings, const std::string& error) {
    using lifecycle::circuit_state;
    const auto it = circuits.find(lane);
    if (it == circuits.end()) return circuit_state::closed;
    auto& c = it->second;
    if (c.state == circuit_state::open) return circuit_state::open;
    if (ok == false) {
        circuit_trip(lane, settings, error);
        return circuit_state::open;
    }
    if (ok && ++c.successes >= settings.successes) {
        circuits.erase(it);
        return circuit_state::closed;
    }
    c.probes = std::max(c.probes - 1, 0);
    return circuit_state::half_open;
}

std::vector<ports::disabled_endpoint> fake_database::note_endpoints(const std::vector<ports::endpoint_note>& notes) {
    std::vector<ports::disabled_endpoint> disabled;
    for (const auto& n : notes) {
        const auto it = endpoints.find(n.name);
        if (it == endpoints.end() || !it->second.row.enabled) continue;
        auto& e = it->second;
        if (n.failing_for && !e.failing_since) e.failing_since = std::max(now() - *n.failing_for, e.last_success_at.value_or(base::wall_time::min()));
        if (!n.failing_for) e.failing_since.reset();
        if (n.last_success) e.last_success_at = std::max(now() - *n.last_success, e.last_success_at.value_or(base::wall_time::min()));
        if (n.failing_for && n.disable_after && e.failing_since <= now() - *n.disable_after) {
            e.row.enabled = false;
            e.row.disabled_reason = "failing without one success";
            disabled.push_back({n.name, e.row.disabled_reason});
        }
        endpoint_changed();
    }
    return disabled;
}

ports::delivery_store::counts fake_database::count() const {
    ports::delivery_store::counts c;
    std::set<std::pair<std::string, std::string>> blocked;
    for (const auto& [id, d] : deliveries) {
        if (d.blocks && blocked.emplace(d.lane, d.ordering_key.value_or("")).second) ++c.blocked_keys;
        if (d.status == "failed") ++c.failed;
        if (d.status == "unrouted") ++c.unrouted;
        if (d.status != "pending") continue;
        if (d.claimed_by) {
            ++c.claimed;
        } else if (d.due_at > now()) {
            ++c.scheduled;
        } else {
            ++c.due;
            c.oldest_due_seconds = std::max(c.oldest_due_seconds, std::chrono::duration<double>(now() - d.due_at).count());
        }
    }
    return c;
}

std::string fake_database::status_of(std::int64_t event) const {
    const auto tried = [&](std::int64_t delivery) { return std::any_of(attempts.begin(), attempts.end(), [&](const auto& a) { return a.delivery == delivery; }); };
    for (const auto& [id, d] : deliveries) {
        if (d.event != event) continue;
        return d.status != "pending" ? d.status : tried(id) ? "retrying" : "pending";
    }
    for (auto a = attempts.rbegin(); a != attempts.rend(); ++a) {
        if (a->event == event) return a->outcome;
    }
    return "pending";
}

}  // namespace outboxd::testkit
