// What every delivery_store promises about claims, on PostgreSQL and on the fake: the fault sweep and the simulation are worth something only as long as both behave alike.
#include "helpers.hpp"
#include "lifecycle/safe_moment.hpp"

using namespace outboxd;
using namespace outboxd::contract;

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
