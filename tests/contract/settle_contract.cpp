// What every delivery_store promises about settlements.
#include "helpers.hpp"

using namespace outboxd;
using namespace outboxd::contract;

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
