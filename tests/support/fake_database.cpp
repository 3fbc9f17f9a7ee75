#include "support/fake_database.hpp"

#include <algorithm>

namespace outboxd::testkit {

namespace {

bool pattern_matches(const std::string& pattern, const std::string& type) {
    if (pattern == "*" || pattern == type) return true;
    return pattern.ends_with(".*") && type.starts_with(pattern.substr(0, pattern.size() - 1)) && type.size() > pattern.size() - 1;
}

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
