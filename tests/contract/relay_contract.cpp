// What every delivery_store promises about relays, endpoints, circuits and routing.
#include "helpers.hpp"

using namespace outboxd;
using namespace outboxd::contract;

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
