#include "support/relay_watch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace outboxd::testkit {

namespace {

constexpr std::size_t most_violations = 20;
// A clock that went back leaves bounds ahead of it until they are dropped.
constexpr auto bound_patience = std::chrono::seconds{15};

std::int64_t event_number(std::string_view event_id) {
    constexpr std::string_view start = "event-";
    std::int64_t n = 0;
    if (event_id.starts_with(start)) (void)std::from_chars(event_id.data() + start.size(), event_id.data() + event_id.size(), n);
    return n;
}

// Receivers are called https://LANE.test; others are direct URLs, whose lane is their origin.
std::string lane_of(const std::string& origin) {
    constexpr std::string_view scheme = "https://";
    const auto end = origin.find(".test:");
    return end == std::string::npos ? "url:" + origin : origin.substr(scheme.size(), end - scheme.size());
}

std::string name_of(std::int64_t event, const std::string& lane) { return "event " + std::to_string(event) + " for " + lane; }

bool final_outcome(const std::string& outcome) { return outcome != "retried" && outcome != "lost"; }

}  // namespace

relay_watch::relay_watch(fake_database& database, clock now, rules r) : database_(database), now_(std::move(now)), rules_(r) {
    database_.on_claim = [this](const fake_delivery& row, const ports::claim_request& request) { claims(row, request); };
    database_.on_history = [this](const fake_delivery& row, const fake_attempt& line) { history(row, line); };
}

void relay_watch::broke(const std::string& rule, const std::string& what) {
    if (violations_.size() < most_violations) violations_.push_back(std::to_string(std::chrono::duration<double>(now_().time_since_epoch()).count()) + " s: " + rule + ": " + what);
}

void relay_watch::tell(std::int64_t event, const std::string& what) const {
    if (traced_ != 0 && event == traced_) std::printf("  %.6f s: %s\n", std::chrono::duration<double>(now_().time_since_epoch()).count(), what.c_str());
}

std::string relay_watch::report() const {
    std::string text;
    for (const auto& v : violations_) text += v + "\n";
    return text;
}

void relay_watch::committed(std::int64_t event, const fake_event& e, std::set<std::string> lanes) {
    sources_[event] = source{"event-" + std::to_string(event), e.body, std::move(lanes), e.max_attempts, database_.now()};
}

void relay_watch::server_clock_moved() {
    clock_moved_ = now_();
    hidden_.clear();
}

int relay_watch::limit_of(std::int64_t event) const {
    const auto it = sources_.find(event);
    return it != sources_.end() && it->second.max_attempts > 0 ? it->second.max_attempts : rules_.max_attempts;
}

void relay_watch::registered(int p, std::int64_t relay, base::boot_time asked) {
    auto& process = processes_[p];
    process.relay = relay;
    process.beat_asked = asked;
    process.lease_until = asked + rules_.lease;
    process_of_[relay] = p;
}

void relay_watch::beaten(int p, bool alive, base::boot_time asked) {
    auto& process = processes_[p];
    if (!alive) {
        process.lease_until = {};
        return;
    }
    process.beat_asked = asked;
    process.lease_until = asked + rules_.lease;
}

void relay_watch::died(int p) { processes_.erase(p); }

// A bound that passes over a row which is due, or will be when its transaction commits, hides it.
void relay_watch::asks_claim(const ports::claim_request& request) {
    std::map<std::string, std::optional<ports::lane_bound>> asked;
    for (const auto& l : request.lanes) asked[l.lane] = l.bound;
    if (asked.empty()) return;
    for (const auto& [id, row] : database_.deliveries) {
        const auto it = asked.find(row.lane);
        if (it == asked.end() || row.status != "pending" || row.claimed_by || row.ordering_key || row.due_at > database_.now()) continue;
        const auto& bound = it->second;
        const bool below = bound && (row.due_at < bound->due_at || (row.due_at == bound->due_at && id <= bound->id));
        if (!below) {
            hidden_.erase(id);
            continue;
        }
        const auto since = hidden_.emplace(id, now_()).first->second;
        if (!clock_moved_ || now_() - since > bound_patience) broke("a lane's bound never passes over a row", name_of(row.event, row.lane));
    }
}

void relay_watch::claims(const fake_delivery& row, const ports::claim_request& request) {
    const auto relay = request.relay;
    tell(row.event, "claimed for " + row.lane + " by relay " + std::to_string(relay) + ", epoch " + std::to_string(request.epoch) + ", due at " + base::format_rfc3339(row.due_at));
    auto& f = fates_[{row.event, row.lane}];
    if (f.delivery != 0 && f.delivery != row.id) broke("an event is fanned out once", name_of(row.event, row.lane) + " has deliveries " + std::to_string(f.delivery) + " and " + std::to_string(row.id));
    f.delivery = row.id;
    hidden_.erase(row.id);
    if (!sources_.contains(row.event)) broke("a rolled-back or open event is never touched", name_of(row.event, row.lane));
    if (row.claimed_by) broke("never two live claims", name_of(row.event, row.lane) + " of relay " + std::to_string(*row.claimed_by) + " claimed by " + std::to_string(relay));
    const auto epoch = epochs_.find(relay);
    if (epoch != epochs_.end() && request.epoch < epoch->second) broke("a claim of an earlier session takes nothing", name_of(row.event, row.lane) + " by relay " + std::to_string(relay));
    if (!database_.has_lease(relay)) broke("no claim without a lease", name_of(row.event, row.lane) + " by relay " + std::to_string(relay));
}

void relay_watch::history(const fake_delivery& row, const fake_attempt& line) {
    auto& f = fates_[{row.event, row.lane}];
    const std::string name = name_of(row.event, row.lane);
    tell(row.event, "history of " + row.lane + ": " + line.outcome + ", attempt " + std::to_string(line.attempt) + ", relay " + std::to_string(line.relay));
    if (line.outcome == "lost" || (line.outcome == "failed" && line.error.starts_with("interrupted"))) ++lost_claims_;
    if (line.outcome == "lost") check_lost(row, line);
    if (row.rescued > rules_.max_rescues + 1) broke("rescues end", name + " was rescued " + std::to_string(row.rescued) + " times");
    const bool ours = line.error_class == "local" || line.error_class == "proxy";
    if (line.outcome == "retried" && !ours) {
        ++f.counted;
        if (f.counted >= limit_of(row.event)) broke("attempts stay within their limit", name + " is retried after " + std::to_string(f.counted) + " attempts");
    }
    if (!final_outcome(line.outcome)) return;
    if (line.outcome == "published" && f.good_answers == 0) broke("published means that the receiver said so", name);
    const bool late_success = line.outcome == "published" && f.outcome == "failed";
    if (!f.outcome.empty() && !late_success) broke("a delivery ends once", name + ": " + f.outcome + ", then " + line.outcome);
    if (f.outcome.empty()) ++ended_;
    f.outcome = line.outcome;
    f.ended_by = line.relay;
}

void relay_watch::check_lost(const fake_delivery& row, const fake_attempt& line) {
    const auto p = process_of_.find(line.relay);
    if (p == process_of_.end()) return;
    const auto it = processes_.find(p->second);
    if (it == processes_.end() || it->second.relay != line.relay) return;
    if (it->second.lease_until > now_() && !clock_excuses(it->second.beat_asked)) broke("only the dead are rescued from", name_of(row.event, row.lane) + " of relay " + std::to_string(line.relay));
}

void relay_watch::settled(int p, std::int64_t relay, const std::vector<lifecycle::settlement>& batch, const std::vector<std::int64_t>* changed) {
    auto& process = processes_[p];
    for (const auto& s : batch) {
        const auto row = database_.deliveries.find(s.delivery);
        if (row != database_.deliveries.end()) tell(row->second.event, "settle of relay " + std::to_string(relay) + " came back " + (changed != nullptr ? "well" : "failed") + ": " + std::string{to_string(s.outcome)});
    }
    if (changed == nullptr) {
        for (const auto& s : batch) process.uncertain.insert(s.delivery);
        return;
    }
    const std::set<std::int64_t> taken(changed->begin(), changed->end());
    for (const auto& s : batch) {
        const bool uncertain = process.uncertain.erase(s.delivery) > 0;
        // What is handed back may have been found by release_unknown() before.
        if (taken.contains(s.delivery) || uncertain || s.outcome == lifecycle::outcome::released) continue;
        const auto row = database_.deliveries.find(s.delivery);
        // A late success of another relay may have ended it.
        const bool ended_elsewhere = row == database_.deliveries.end();
        if (ended_elsewhere || process.relay != relay || process.lease_until <= now_() || clock_excuses(process.beat_asked)) continue;
        broke("a living relay's result is taken", "delivery " + std::to_string(s.delivery) + ", " + std::string{to_string(s.outcome)} + " by relay " + std::to_string(relay));
    }
}

void relay_watch::circuit_shut(int p, const std::string& lane) { processes_[p].shut.emplace(lane, 0); }

void relay_watch::circuits_loaded(int p, const std::vector<ports::circuit_row>& rows) {
    auto& shut = processes_[p].shut;
    std::set<std::string> named;
    for (const auto& row : rows) {
        named.insert(row.lane);
        shut.emplace(row.lane, 0);
    }
    std::erase_if(shut, [&](const auto& s) { return !named.contains(s.first); });
}

void relay_watch::probe_granted(int p, const std::string& lane) { ++processes_[p].shut[lane]; }

void relay_watch::probe_returned(int p, const std::string& lane) {
    const auto it = processes_[p].shut.find(lane);
    if (it != processes_[p].shut.end() && it->second > 0) --it->second;
}

void relay_watch::endpoints_loaded(int p, const std::vector<ports::endpoint_row>& rows) {
    auto& unusable = processes_[p].unusable;
    unusable.clear();
    for (const auto& row : rows) {
        if (!row.enabled || row.paused) unusable.insert(row.name);
    }
}

void relay_watch::send_begins(int p, const sent_request& r) {
    ++sends_;
    tell(event_number(r.event_id), "request to " + r.origin + " by process " + std::to_string(p) + ", attempt " + std::to_string(r.attempt));
    const target t{event_number(r.event_id), lane_of(r.origin)};
    auto& f = fates_[t];
    check_content(t, r);
    check_rights(p, t, f, r);
    const auto row = database_.deliveries.find(f.delivery);
    if (row != database_.deliveries.end()) {
        check_row(t, row->second, r);
    } else if (f.outcome != "published" || f.ended_by == processes_[p].relay) {
        broke("only live deliveries are sent", name_of(t.first, t.second) + (f.outcome.empty() ? "" : ", ended as " + f.outcome));
    }
    check_circuit(p, t);
    f.on_wire_until = r.deadline;
    f.on_wire_of = p;
    if (f.good_answers > 0) ++duplicates_;
}

void relay_watch::check_content(const target& t, const sent_request& r) {
    const auto s = sources_.find(t.first);
    if (s == sources_.end()) {
        broke("a rolled-back or open event is never sent", r.event_id);
        return;
    }
    const std::string name = name_of(t.first, t.second);
    if (r.event_id != s->second.event_id || r.idempotency_key != s->second.event_id) broke("the same id and key at every attempt", name + " went as " + r.event_id + ", key " + r.idempotency_key);
    if (r.body != s->second.body) broke("the same bytes at every attempt", name);
    if (!s->second.lanes.contains(t.second)) broke("only those get an event whom it is addressed to", name);
}

void relay_watch::check_rights(int p, const target& t, const fate& f, const sent_request& r) {
    const auto& process = processes_[p];
    const std::string name = name_of(t.first, t.second);
    if (r.deadline > process.lease_until) broke("no send that the lease does not outlast", name + " by relay " + std::to_string(process.relay));
    if (process.unusable.contains(t.second)) broke("nothing is sent to an endpoint known to be stopped", name);
    // A clock that jumps ahead ends leases while their requests are on the wire.
    if (f.on_wire_until > now_() && !clock_excuses(now_() - rules_.lease)) broke("one attempt at a time", name + ": process " + std::to_string(p) + " while " + std::to_string(f.on_wire_of) + " is at it");
    const auto row = database_.deliveries.find(f.delivery);
    if (row == database_.deliveries.end() || row->second.claimed_by == process.relay || clock_excuses(process.beat_asked)) return;
    broke("only the holder of the claim sends", name + " by relay " + std::to_string(process.relay) + ", claimed by " + (row->second.claimed_by ? std::to_string(*row->second.claimed_by) : "nobody"));
}

void relay_watch::check_row(const target& t, const fake_delivery& row, const sent_request& r) {
    const std::string name = name_of(t.first, t.second);
    if (r.attempt > limit_of(t.first)) broke("attempts stay within their limit", name + ": attempt " + std::to_string(r.attempt));
    if (!clock_moved_ && row.expires_at && *row.expires_at <= database_.now()) broke("nothing is sent after expires_at", name);
    if (!clock_moved_ && row.due_at > database_.now()) broke("nothing is sent before it is due", name);
    if (!row.ordering_key) return;
    for (const auto& [id, older] : database_.deliveries) {
        if (older.lane != row.lane || older.ordering_key != row.ordering_key || older.event >= row.event) continue;
        if (older.status == "pending" || older.blocks) broke("the order of an ordering key", name + " goes before event " + std::to_string(older.event));
    }
}

void relay_watch::check_circuit(int p, const target& t) {
    auto& shut = processes_[p].shut;
    const auto it = shut.find(t.second);
    if (it == shut.end()) return;
    if (it->second == 0) {
        broke("nothing but granted probes while a circuit is open", name_of(t.first, t.second) + " by process " + std::to_string(p));
    } else {
        --it->second;
    }
}

void relay_watch::send_ends(int, const sent_request& r, const ports::send_reply& reply) {
    auto& f = fates_[{event_number(r.event_id), lane_of(r.origin)}];
    tell(event_number(r.event_id), "reply " + std::to_string(reply.status) + " " + reply.error);
    f.on_wire_until = {};
    if (reply.complete && reply.status / 100 == 2) ++f.good_answers;
}

void relay_watch::check_all_ended(base::wall_time before) {
    for (const auto& [event, s] : sources_) {
        if (s.committed_at > before) continue;
        for (const auto& lane : s.lanes) check_one_ended({event, lane}, before);
    }
}

void relay_watch::check_one_ended(const target& t, base::wall_time before) {
    const auto f = fates_.find(t);
    if (f != fates_.end() && !f->second.outcome.empty()) return;
    const std::string name = name_of(t.first, t.second);
    for (const auto& [id, row] : database_.deliveries) {
        if (row.event != t.first || row.lane != t.second) continue;
        if (row.due_at > before) return;
        broke("everything ends", name + " is still " + row.status + (row.claimed_by ? ", claimed by " + std::to_string(*row.claimed_by) : "") + ", attempts " + std::to_string(row.attempts) +
                                     ", rescued " + std::to_string(row.rescued));
        return;
    }
    broke("nothing is lost", name);
}

void relay_watch::check_claims() {
    for (const auto& [id, row] : database_.deliveries) {
        if (row.claimed_by && !database_.relays.contains(*row.claimed_by)) broke("no claim outlives its relay", name_of(row.event, row.lane) + " of relay " + std::to_string(*row.claimed_by));
    }
}

}  // namespace outboxd::testkit
