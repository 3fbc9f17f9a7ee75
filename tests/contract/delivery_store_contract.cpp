// What every delivery_store promises, run on PostgreSQL and on the fake: the fault sweep and the simulation are worth something only as long as both behave alike.
#include <algorithm>
#include <set>
#include <thread>

#include "lifecycle/safe_moment.hpp"
#include "stores.hpp"

using namespace outboxd;
using namespace outboxd::contract;
using namespace std::chrono_literals;
using lifecycle::outcome;
using testkit::good;
using testkit::refused;

#define ON_BOTH_STORES(name, tags) TEMPLATE_TEST_CASE(name, tags "[contract]", on_fake, on_postgres)

namespace {

fake_event direct(std::string lane = "url:a") {
    fake_event e;
    e.url = "https://a.example.com/";
    e.lane = std::move(lane);
    return e;
}

fake_event keyed(std::string key, std::string lane = "url:a") {
    auto e = direct(std::move(lane));
    e.ordering_key = std::move(key);
    return e;
}

ports::registration enlist(outbox& o, base::milliseconds lease = 60s) { return o.get(o.store().register_relay({"test", "host", 1, "0"}, lease)); }

ports::claim_request everything(const ports::registration& who) {
    ports::claim_request r;
    r.relay = who.relay;
    r.epoch = who.epoch;
    r.discover_lanes = 100;
    r.discover_limit = 1000;
    r.max_rows = 1000;
    r.max_bytes = 1 << 30;
    r.fetch_max = 1 << 20;
    return r;
}

std::vector<ports::claimed> claim_all(outbox& o, const ports::registration& who) { return o.get(o.store().claim(everything(who))).rows; }

std::vector<std::int64_t> events_of(const std::vector<ports::claimed>& rows) {
    std::vector<std::int64_t> ids;
    for (const auto& r : rows) ids.push_back(r.event.id);
    std::sort(ids.begin(), ids.end());
    return ids;
}

lifecycle::settlement result(std::int64_t delivery, outcome what) {
    lifecycle::settlement s;
    s.delivery = delivery;
    s.outcome = what;
    s.http_status = what == outcome::published ? 200 : 0;
    s.started = base::boot_clock::now();
    if (what == outcome::retried) s.retry_in = 0ms;
    return s;
}

std::vector<std::int64_t> settle(outbox& o, const ports::registration& who, std::vector<lifecycle::settlement> batch) { return o.get(o.store().settle(who.relay, batch)); }

}  // namespace

ON_BOTH_STORES("a committed event is claimed once, with everything that a request needs", "") {
    const auto o = TestType::make();
    auto e = direct();
    e.event_type = "order.created";
    e.body = R"({"b":1,  "a":1e400, "a":"\u2028 💚"})";
    e.ordering_key = "key";
    e.max_attempts = 3;
    const auto id = o->insert(e);
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].event.id == id);
    CHECK(rows[0].event.body == e.body);
    CHECK(rows[0].event.body_is_json);
    CHECK(rows[0].event.event_type == "order.created");
    CHECK(!rows[0].event.event_id.empty());
    CHECK(rows[0].event.url == e.url);
    CHECK(!rows[0].endpoint);
    CHECK(rows[0].lane == "url:a");
    CHECK(rows[0].ordering_key == "key");
    CHECK(rows[0].attempts == 0);
    CHECK(rows[0].max_attempts == 3);
    CHECK(rows[0].size == static_cast<std::int64_t>(e.body.size()));
    CHECK(!rows[0].event_missing);
    CHECK(claim_all(*o, who).empty());
    CHECK(claim_all(*o, enlist(*o)).empty());
}

ON_BOTH_STORES("bytes that are no JSON come back as bytes", "") {
    const auto o = TestType::make();
    auto e = direct();
    e.body = "plain, not json";
    e.is_json = false;
    o->insert(e);
    const auto rows = claim_all(*o, enlist(*o));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].event.body == e.body);
    CHECK(!rows[0].event.body_is_json);
}

ON_BOTH_STORES("rows come in order of due time, up to the limits of the lane and of the claim", "") {
    const auto o = TestType::make();
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 10; ++i) ids.push_back(o->insert(direct()));
    const auto who = enlist(*o);
    auto ask = everything(who);
    ask.discover_lanes = 0;
    ask.lanes.push_back({"url:a", 3, std::nullopt, ""});
    CHECK(events_of(o->get(o->store().claim(ask)).rows) == std::vector<std::int64_t>(ids.begin(), ids.begin() + 3));
    ask.lanes[0].limit = 100;
    ask.max_rows = 2;
    const auto reply = o->get(o->store().claim(ask));
    CHECK(events_of(reply.rows) == std::vector<std::int64_t>(ids.begin() + 3, ids.begin() + 5));
    CHECK(reply.rows[0].due_at <= reply.rows[1].due_at);
    CHECK(claim_all(*o, who).size() == 5);
}

ON_BOTH_STORES("discovery finds other lanes, leaves excluded and known ones, and goes on from its cursor", "") {
    const auto o = TestType::make();
    for (const auto* lane : {"url:a", "url:b", "url:c", "url:d", "url:e"}) o->insert(direct(lane));
    const auto who = enlist(*o);
    auto ask = everything(who);
    ask.lanes.push_back({"url:a", 0, std::nullopt, ""});
    ask.exclude = {"url:c"};
    ask.discover_lanes = 2;
    std::set<std::string> seen;
    for (int i = 0; i < 3; ++i) {
        const auto reply = o->get(o->store().claim(ask));
        CHECK(reply.rows.size() <= 2);
        for (const auto& r : reply.rows) CHECK(seen.insert(r.lane).second);
        ask.discover_after = reply.cursor;
    }
    CHECK(seen == std::set<std::string>{"url:b", "url:d", "url:e"});
}

ON_BOTH_STORES("bodies fill the byte limit, the first row always comes, an over-long body is left out", "") {
    const auto o = TestType::make();
    auto e = direct();
    e.body = "\"" + std::string(998, 'x') + "\"";
    for (int i = 0; i < 4; ++i) o->insert(e);
    const auto who = enlist(*o);
    auto ask = everything(who);
    ask.max_bytes = 10;
    CHECK(o->get(o->store().claim(ask)).rows.size() == 1);
    ask.max_bytes = 2000;
    CHECK(o->get(o->store().claim(ask)).rows.size() == 2);
    ask.fetch_max = 100;
    ask.max_bytes = 10;
    const auto rows = o->get(o->store().claim(ask)).rows;
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].event.body.empty());
    CHECK(rows[0].event.body_left_out);
    CHECK(rows[0].size == 1000);
}

ON_BOTH_STORES("events ahead of their time wait, expired ones are handed out to be settled", "") {
    const auto o = TestType::make();
    const auto now = std::chrono::time_point_cast<base::microseconds>(std::chrono::system_clock::now());
    auto later = direct();
    later.deliver_at = now + 1h;
    o->insert(later);
    auto over = direct();
    over.expires_at = now - 1h;
    const auto expired = o->insert(over);
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    REQUIRE(events_of(rows) == std::vector<std::int64_t>{expired});
    CHECK(rows[0].expires_at);
    const auto c = o->get(o->store().count());
    CHECK(c.scheduled == 1);
    CHECK(c.claimed == 1);
    CHECK(settle(*o, who, {result(rows[0].delivery, outcome::expired)}).size() == 1);
    CHECK(o->status(expired) == "expired");
}

ON_BOTH_STORES("[B77] an event that was deleted by hand is said to be missing", "[B77]") {
    const auto o = TestType::make();
    const auto id = o->insert(direct());
    o->remove_event(id);
    const auto rows = claim_all(*o, enlist(*o));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].event_missing);
    CHECK(rows[0].event.id == id);
}

ON_BOTH_STORES("published removes the delivery and leaves its attempt", "") {
    const auto o = TestType::make();
    const auto id = o->insert(direct());
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    auto s = result(rows[0].delivery, outcome::published);
    s.duration_ms = 12;
    s.phases = {-1, 1, 2, 3};
    CHECK(settle(*o, who, {s}) == std::vector<std::int64_t>{rows[0].delivery});
    CHECK(o->status(id) == "published");
    const auto tries = o->attempts(id);
    REQUIRE(tries.size() == 1);
    CHECK(tries[0].outcome == "published");
    CHECK(tries[0].attempt == 1);
    CHECK(tries[0].http_status == 200);
    CHECK(tries[0].relay == who.relay);
    CHECK(settle(*o, who, {s}).empty());
    CHECK(o->attempts(id).size() == 1);
}

ON_BOTH_STORES("retried counts, waits, pins the format; failed ends; cancelled ends; released leaves no trace", "") {
    const auto o = TestType::make();
    const auto id = o->insert(direct());
    const auto who = enlist(*o);
    auto rows = claim_all(*o, who);
    auto s = result(rows[0].delivery, outcome::released);
    CHECK(settle(*o, who, {s}).size() == 1);
    CHECK(o->attempts(id).empty());
    CHECK(o->status(id) == "pending");

    rows = claim_all(*o, who);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].attempts == 0);
    s = result(rows[0].delivery, outcome::retried);
    s.http_status = 503;
    s.error_class = lifecycle::error_class::http;
    s.error = "503 Service Unavailable";
    s.format = "enriched";
    CHECK(settle(*o, who, {s}).size() == 1);
    CHECK(o->status(id) == "retrying");

    rows = claim_all(*o, who);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].attempts == 1);
    CHECK(rows[0].format == "enriched");
    s = result(rows[0].delivery, outcome::retried);
    s.counts = false;
    s.format = "raw";
    s.retry_in = 1h;
    CHECK(settle(*o, who, {s}).size() == 1);
    CHECK(claim_all(*o, who).empty());

    const auto second = o->insert(direct());
    rows = claim_all(*o, who);
    REQUIRE(events_of(rows) == std::vector<std::int64_t>{second});
    CHECK(settle(*o, who, {result(rows[0].delivery, outcome::failed)}).size() == 1);
    CHECK(o->status(second) == "failed");
    CHECK(claim_all(*o, who).empty());

    const auto third = o->insert(direct());
    rows = claim_all(*o, who);
    CHECK(settle(*o, who, {result(rows[0].delivery, outcome::cancelled)}).size() == 1);
    CHECK(o->status(third) == "cancelled");

    const auto tries = o->attempts(id);
    REQUIRE(tries.size() == 2);
    CHECK(tries[0].outcome == "retried");
    CHECK(tries[0].http_status == 503);
    CHECK(tries[0].error_class == "http");
    CHECK(tries[0].error == "503 Service Unavailable");
    CHECK(tries[1].attempt == 2);
}

ON_BOTH_STORES("a settlement that does not count uses up no attempt, and the pinned format stays", "") {
    const auto o = TestType::make();
    o->insert(direct());
    const auto who = enlist(*o);
    auto rows = claim_all(*o, who);
    auto s = result(rows[0].delivery, outcome::retried);
    s.counts = false;
    s.format = "raw";
    settle(*o, who, {s});
    rows = claim_all(*o, who);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].attempts == 0);
    CHECK(rows[0].format == "raw");
    s = result(rows[0].delivery, outcome::retried);
    s.format = "enriched";
    settle(*o, who, {s});
    rows = claim_all(*o, who);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].attempts == 1);
    CHECK(rows[0].format == "raw");
}

ON_BOTH_STORES("[B02] a late owner's success counts, everything else of it is refused", "[B02]") {
    const auto o = TestType::make();
    const auto first = o->insert(direct());
    const auto second = o->insert(direct());
    const auto late = enlist(*o);
    const auto rows = claim_all(*o, late);
    REQUIRE(rows.size() == 2);
    o->end_lease(late.relay);
    const auto heir = enlist(*o);
    const auto rescued = o->get(o->store().rescue(heir.relay, 10, 100));
    CHECK(rescued.size() == 2);
    CHECK(rescued[0].outcome == "lost");
    CHECK(rescued[0].dead_relay == late.relay);
    const auto again = claim_all(*o, heir);
    REQUIRE(again.size() == 2);
    CHECK(again[0].rescued == 1);
    CHECK(again[0].attempts == 0);
    for (const auto what : {outcome::retried, outcome::failed, outcome::expired, outcome::cancelled, outcome::released}) {
        INFO(lifecycle::to_string(what));
        CHECK(settle(*o, late, {result(rows[1].delivery, what)}).empty());
    }
    CHECK(settle(*o, late, {result(rows[0].delivery, outcome::published)}) == std::vector<std::int64_t>{rows[0].delivery});
    CHECK(o->status(first) == "published");
    CHECK(o->status(second) == "retrying");
    CHECK(settle(*o, heir, {result(rows[0].delivery, outcome::retried), result(rows[1].delivery, outcome::published)}) == std::vector<std::int64_t>{rows[1].delivery});
    CHECK(o->status(first) == "published");
}

ON_BOTH_STORES("[B77] two results for one delivery are one, and the success wins; unknown ids change nothing", "[B77]") {
    const auto o = TestType::make();
    const auto id = o->insert(direct());
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    const auto d = rows[0].delivery;
    CHECK(settle(*o, who, {result(d, outcome::retried), result(d + 1000, outcome::published), result(d, outcome::published)}) == std::vector<std::int64_t>{d});
    CHECK(o->status(id) == "published");
    CHECK(o->attempts(id).size() == 1);
    CHECK(settle(*o, who, {}).empty());
}

ON_BOTH_STORES("text that is no UTF-8 does not hold the others of its batch", "") {
    const auto o = TestType::make();
    const auto first = o->insert(direct());
    const auto second = o->insert(direct());
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    auto bad = result(rows[0].delivery, outcome::failed);
    bad.error = "broken \xff\xfe";
    bad.response_excerpt = std::string{"a\0b\xc3", 4};
    CHECK(settle(*o, who, {bad, result(rows[1].delivery, outcome::published)}).size() == 2);
    CHECK(o->status(first) == "failed");
    CHECK(o->status(second) == "published");
}

ON_BOTH_STORES("of an ordering key only the oldest row is handed out, and the next one after its end", "") {
    const auto o = TestType::make();
    const auto a1 = o->insert(keyed("a"));
    const auto a2 = o->insert(keyed("a"));
    const auto b1 = o->insert(keyed("b"));
    const auto other = o->insert(keyed("a", "url:other"));
    const auto who = enlist(*o);
    auto rows = claim_all(*o, who);
    CHECK(events_of(rows) == std::vector<std::int64_t>{a1, b1, other});
    CHECK(claim_all(*o, who).empty());
    const auto of = [&](std::int64_t event) { return std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.event.id == event; })->delivery; };
    auto wait = result(of(a1), outcome::retried);
    wait.retry_in = 1h;
    settle(*o, who, {wait, result(of(b1), outcome::published), result(of(other), outcome::published)});
    CHECK(claim_all(*o, who).empty());
    CHECK(o->status(a2) == "pending");
}

ON_BOTH_STORES("a failed delivery holds its key when it blocks, and lets the next pass when it does not", "") {
    const auto o = TestType::make();
    o->insert(keyed("hold"));
    o->insert(keyed("pass"));
    o->insert(keyed("hold"));
    const auto passes = o->insert(keyed("pass"));
    const auto who = enlist(*o);
    auto rows = claim_all(*o, who);
    REQUIRE(rows.size() == 2);
    std::vector<lifecycle::settlement> batch;
    for (const auto& r : rows) {
        batch.push_back(result(r.delivery, outcome::failed));
        batch.back().blocks = r.ordering_key == "hold";
    }
    settle(*o, who, batch);
    CHECK(events_of(claim_all(*o, who)) == std::vector<std::int64_t>{passes});
}

ON_BOTH_STORES("a claim without a living lease, or of an earlier epoch, takes nothing", "") {
    const auto o = TestType::make();
    o->insert(direct());
    const auto who = enlist(*o);
    auto ask = everything(who);
    ask.epoch = who.epoch + 1;
    CHECK(refused(o->run(o->store().claim(ask)), base::errc::lease_lost));
    const auto epoch = o->get(o->store().bump_epoch(who.relay));
    CHECK(epoch == who.epoch + 1);
    CHECK(refused(o->run(o->store().claim(everything(who))), base::errc::lease_lost));
    o->end_lease(who.relay);
    CHECK(refused(o->run(o->store().claim(ask)), base::errc::lease_lost));
    ask.relay = who.relay + 1000;
    CHECK(refused(o->run(o->store().claim(ask)), base::errc::lease_lost));
    CHECK(refused(o->run(o->store().bump_epoch(who.relay + 1000)), base::errc::lease_lost));
    ports::beat_request beat{who.relay, 60s, 0, false, ""};
    CHECK(o->get(o->store().beat(beat)).alive);
    ask = everything({who.relay, epoch});
    CHECK(o->get(o->store().claim(ask)).rows.size() == 1);
}

ON_BOTH_STORES("heartbeats tell whether the relay is still known and how many live", "") {
    const auto o = TestType::make();
    const auto first = enlist(*o);
    const auto second = enlist(*o);
    CHECK(first.relay != second.relay);
    const auto reply = o->get(o->store().beat({first.relay, 60s, 5, true, R"({"a":1})"}));
    CHECK(reply.alive);
    CHECK(reply.live_relays == 2);
    CHECK(reply.now.time_since_epoch().count() > 0);
    CHECK(o->get(o->store().retire_relay(second.relay)) == 0);
    CHECK(!o->get(o->store().beat({second.relay, 60s, 0, false, ""})).alive);
    CHECK(o->get(o->store().beat({first.relay, 60s, 0, false, ""})).live_relays == 1);
    CHECK(good(o->run(o->store().set_wake(first.relay, true))));
    CHECK(good(o->run(o->store().set_wake(first.relay, false))));
}

ON_BOTH_STORES("what a relay holds without knowing it is handed back, and all of it when it retires", "") {
    const auto o = TestType::make();
    for (int i = 0; i < 4; ++i) o->insert(direct());
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    REQUIRE(rows.size() == 4);
    CHECK(o->get(o->store().release_unknown(who.relay, {rows[0].delivery})) == 3);
    const auto other = enlist(*o);
    CHECK(claim_all(*o, other).size() == 3);
    CHECK(o->get(o->store().retire_relay(who.relay)) == 1);
    CHECK(claim_all(*o, other).size() == 1);
    CHECK(o->attempts(rows[0].event.id).empty());
}

ON_BOTH_STORES("rescue takes only from the dead, again and again, until the delivery is given up", "") {
    const auto o = TestType::make();
    const auto id = o->insert(direct());
    const auto judge = enlist(*o);
    for (int i = 1; i <= 2; ++i) {
        const auto who = enlist(*o);
        CHECK(claim_all(*o, who).size() == 1);
        CHECK(o->get(o->store().rescue(judge.relay, 2, 100)).empty());
        o->end_lease(who.relay);
        CHECK(o->get(o->store().rescue(judge.relay, 2, 100)).size() == 1);
        CHECK(!o->get(o->store().beat({who.relay, 60s, 0, false, ""})).alive);
        CHECK(o->status(id) == "retrying");
    }
    const auto last = enlist(*o);
    const auto rows = claim_all(*o, last);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].rescued == 2);
    o->end_lease(last.relay);
    const auto ended = o->get(o->store().rescue(judge.relay, 2, 100));
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].outcome == "failed");
    CHECK(ended[0].lane == "url:a");
    CHECK(o->status(id) == "failed");
    const auto tries = o->attempts(id);
    REQUIRE(tries.size() == 3);
    CHECK(tries[0].outcome == "lost");
    CHECK(tries[2].error == "interrupted 3 times");
}

ON_BOTH_STORES("[B01] a row that commits late is found although the bound has moved on", "[B01]") {
    const auto o = TestType::make();
    const auto who = enlist(*o);
    lifecycle::safe_moment safe;
    const auto late = o->insert_open(direct());
    std::vector<std::int64_t> seen;
    std::optional<ports::lane_bound> bound;
    const auto claim_with_bound = [&] {
        auto ask = everything(who);
        ask.discover_lanes = 0;
        ask.lanes.push_back({"url:a", 100, bound, ""});
        const auto reply = o->get(o->store().claim(ask));
        safe.observe(reply.now, reply.xmin, reply.xmax);
        for (const auto& r : reply.rows) {
            seen.push_back(r.event.id);
            bound = ports::lane_bound{r.due_at, r.delivery};
        }
        if (bound) bound = safe.value() && *safe.value() < bound->due_at ? std::optional{ports::lane_bound{*safe.value(), 0}} : safe.value() ? bound : std::nullopt;
    };
    for (int i = 0; i < 5; ++i) {
        o->insert(direct());
        claim_with_bound();
    }
    CHECK(seen.size() == 5);
    o->finish_open(true);
    claim_with_bound();
    REQUIRE(seen.size() == 6);
    CHECK(seen.back() == late);
    o->insert_open(direct());
    o->finish_open(false);
    claim_with_bound();
    CHECK(seen.size() == 6);
}

ON_BOTH_STORES("a bound leaves out what was claimed before it and nothing after", "") {
    const auto o = TestType::make();
    for (int i = 0; i < 4; ++i) o->insert(direct());
    const auto who = enlist(*o);
    const auto rows = claim_all(*o, who);
    REQUIRE(rows.size() == 4);
    o->get(o->store().release_unknown(who.relay, {rows[3].delivery}));
    auto ask = everything(who);
    ask.discover_lanes = 0;
    ask.lanes.push_back({"url:a", 100, ports::lane_bound{rows[3].due_at, rows[3].delivery}, ""});
    const auto again = o->get(o->store().claim(ask)).rows;  // handed back: due anew, so behind the bound
    CHECK(again.size() == 3);
    o->get(o->store().release_unknown(who.relay, {}));
    ask.lanes[0].bound = ports::lane_bound{again[2].due_at + 1h, 0};
    CHECK(o->get(o->store().claim(ask)).rows.empty());
}

ON_BOTH_STORES("fan-out follows subscriptions; an unmatched event is routed when an endpoint appears", "") {
    const auto o = TestType::make();
    o->add_endpoint("billing", {"order.*"});
    o->add_endpoint("audit", {"*"});
    fake_event e;
    e.event_type = "order.created";
    o->insert(e);
    const auto who = enlist(*o);
    auto rows = claim_all(*o, who);
    std::set<std::string> names;
    for (const auto& r : rows) names.insert(r.endpoint.value_or(""));
    CHECK(names == std::set<std::string>{"audit", "billing"});
    CHECK(rows[0].lane == *rows[0].endpoint);

    fake_event lost;
    lost.endpoint = "later";
    const auto id = o->insert(lost);
    CHECK(o->status(id) == "unrouted");
    CHECK(o->get(o->store().count()).unrouted == 1);
    CHECK(o->get(o->store().route(100, 1h)) == 0);
    o->add_endpoint("later", {"nothing"});
    CHECK(o->get(o->store().route(100, 1h)) == 1);
    rows = claim_all(*o, who);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].endpoint == "later");
}

ON_BOTH_STORES("endpoints load with their secrets, change the digest, and are disabled once with a reason", "") {
    const auto o = TestType::make();
    const auto before = o->get(o->store().endpoint_digest());
    o->add_endpoint("billing", {"*"}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    const auto after = o->get(o->store().endpoint_digest());
    CHECK(before != after);
    CHECK(o->get(o->store().endpoint_digest()) == after);
    auto state = o->get(o->store().load_endpoints());
    CHECK(state.digest == after);
    REQUIRE(state.endpoints.size() == 1);
    CHECK(state.endpoints[0].name == "billing");
    CHECK(state.endpoints[0].url == "https://billing.example.com/");
    CHECK(state.endpoints[0].enabled);
    CHECK(state.endpoints[0].settings == "{}");
    CHECK(state.endpoints[0].managed_by == "sql");
    REQUIRE(state.endpoints[0].secrets.size() == 1);
    CHECK(state.endpoints[0].secrets[0].first == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    CHECK(!state.endpoints[0].secrets[0].second);
    CHECK(good(o->run(o->store().disable_endpoint("billing", "410 Gone"))));
    CHECK(good(o->run(o->store().disable_endpoint("billing", "another reason"))));
    CHECK(good(o->run(o->store().disable_endpoint("absent", "x"))));
    state = o->get(o->store().load_endpoints());
    CHECK(!state.endpoints[0].enabled);
    CHECK(state.endpoints[0].disabled_reason == "410 Gone");
    CHECK(state.digest != after);
}

ON_BOTH_STORES("a circuit opens once, lets probes in after its pause, closes after enough successes, opens longer after a failure", "") {
    const auto o = TestType::make();
    const auto who = enlist(*o);
    lifecycle::circuit_settings settings;
    settings.open_for = 60s;
    settings.successes = 2;
    auto row = o->get(o->store().circuit_trip("billing", settings, "connect refused"));
    CHECK(row.state == lifecycle::circuit_state::open);
    CHECK(row.opens_for > 55s);
    CHECK(row.opens_for <= 60s);
    CHECK(row.last_error == "connect refused");
    row = o->get(o->store().circuit_trip("billing", settings, "second"));
    CHECK(row.last_error == "connect refused");
    CHECK(!o->get(o->store().circuit_probe("billing", who.relay, 1, 10s)));
    CHECK(!o->get(o->store().circuit_probe("closed one", who.relay, 1, 10s)));
    o->end_circuit_pause("billing");
    CHECK(o->get(o->store().circuit_probe("billing", who.relay, 1, 10s)));
    CHECK(!o->get(o->store().circuit_probe("billing", who.relay, 1, 10s)));
    CHECK(o->get(o->store().circuit_result("billing", who.relay, false, settings, "still refused")) == lifecycle::circuit_state::open);
    auto all = o->get(o->store().load_circuits());
    REQUIRE(all.size() == 1);
    CHECK(all[0].lane == "billing");
    CHECK(all[0].opens_for > 100s);
    o->end_circuit_pause("billing");
    CHECK(o->get(o->store().circuit_probe("billing", who.relay, 1, 10s)));
    CHECK(o->get(o->store().circuit_result("billing", who.relay, true, settings, "")) == lifecycle::circuit_state::half_open);
    CHECK(o->get(o->store().circuit_probe("billing", who.relay, 1, 10s)));
    CHECK(o->get(o->store().circuit_result("billing", who.relay, true, settings, "")) == lifecycle::circuit_state::closed);
    CHECK(o->get(o->store().load_circuits()).empty());
}

ON_BOTH_STORES("counts tell due, scheduled, claimed, failed and the age of the oldest due row", "") {
    const auto o = TestType::make();
    const auto who = enlist(*o);
    o->insert(direct());
    auto rows = claim_all(*o, who);
    settle(*o, who, {result(rows[0].delivery, outcome::failed)});
    o->insert(direct());
    claim_all(*o, who);
    for (int i = 0; i < 3; ++i) o->insert(direct());
    auto c = o->get(o->store().count());
    CHECK(c.due == 3);
    CHECK(c.claimed == 1);
    CHECK(c.failed == 1);
    CHECK(c.scheduled == 0);
    while (c.oldest_due_seconds <= 0.05) c = o->get(o->store().count());
    CHECK(c.oldest_due_seconds < 60);
}

ON_BOTH_STORES("a store that was told to end says so to every later call", "") {
    const auto o = TestType::make();
    CHECK(good(o->run(o->store().check_ready())));
    o->store().abort();
    CHECK(refused(o->run(o->store().check_ready()), base::errc::cancelled));
    CHECK(refused(o->run(o->store().claim({})), base::errc::cancelled));
}
