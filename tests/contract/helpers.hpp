// What the contract's cases have in common: events, claims, settlements in one line each.
#pragma once

#include <algorithm>
#include <set>

#include "stores.hpp"

#define ON_BOTH_STORES(name, tags) TEMPLATE_TEST_CASE(name, tags "[contract]", outboxd::contract::on_fake, outboxd::contract::on_postgres)

namespace outboxd::contract {

using namespace std::chrono_literals;
using lifecycle::outcome;
using testkit::good;
using testkit::refused;

inline fake_event direct(std::string lane = "url:a") {
    fake_event e;
    e.url = "https://a.example.com/";
    e.lane = std::move(lane);
    return e;
}

inline fake_event keyed(std::string key, std::string lane = "url:a") {
    auto e = direct(std::move(lane));
    e.ordering_key = std::move(key);
    return e;
}

inline ports::registration enlist(outbox& o, base::milliseconds lease = 60s) { return o.get(o.store().register_relay({"test", "host", 1, "0"}, lease)); }

inline ports::claim_request everything(const ports::registration& who) {
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

inline std::vector<ports::claimed> claim_all(outbox& o, const ports::registration& who) { return o.get(o.store().claim(everything(who))).rows; }

inline std::vector<std::int64_t> events_of(const std::vector<ports::claimed>& rows) {
    std::vector<std::int64_t> ids;
    for (const auto& r : rows) ids.push_back(r.event.id);
    std::sort(ids.begin(), ids.end());
    return ids;
}

inline lifecycle::settlement result(std::int64_t delivery, outcome what) {
    lifecycle::settlement s;
    s.delivery = delivery;
    s.outcome = what;
    s.http_status = what == outcome::published ? 200 : 0;
    s.started = base::boot_clock::now();
    if (what == outcome::retried) s.retry_in = 0ms;
    return s;
}

inline std::vector<std::int64_t> settle(outbox& o, const ports::registration& who, std::vector<lifecycle::settlement> batch) { return o.get(o.store().settle(who.relay, batch)); }

}  // namespace outboxd::contract

