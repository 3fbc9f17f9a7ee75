#include "admin/why.hpp"

#include <functional>

#include "support/catch.hpp"

using namespace outboxd;
using admin::cause;
using Catch::Matchers::Contains;

namespace {

const base::wall_time now = *base::parse_rfc3339("2026-11-30T12:00:00Z");
base::wall_time in(std::chrono::seconds s) {
    return now + s;
}

// A delivery that is due and free, with a relay running.
ports::delivery_facts due() {
    ports::delivery_facts f;
    f.event = 1;
    f.delivery = 2;
    f.event_id = "e1";
    f.endpoint = "billing";
    f.lane = "billing";
    f.status = "pending";
    f.endpoint_known = true;
    f.now = now;
    f.due_at = in(std::chrono::seconds{-5});
    f.live_relays = 1;
    return f;
}

}  // namespace

TEST_CASE("every state of a delivery has one cause and a sentence that names it", "[admin][why]") {
    struct row {
        const char* what;
        std::function<void(ports::delivery_facts&)> change;
        cause expected;
        const char* text;
    };
    using facts = ports::delivery_facts;
    const row rows[] = {
        {"due", [](facts&) {}, cause::waiting, "a relay takes it next"},
        {"published",
         [](facts& f) {
             f.status = "published";
             f.published_at = now;
             f.attempts = 3;
         },
         cause::published, "published at 2026-11-30T12:00:00.000Z by attempt 3"},
        {"failed",
         [](facts& f) {
             f.status = "failed";
             f.attempts = 8;
             f.last_error = "HTTP 500";
         },
         cause::failed, "failed after 8 attempts: HTTP 500"},
        {"failed and blocking",
         [](facts& f) {
             f.status = "failed";
             f.blocks = true;
         },
         cause::failed, "later events of its ordering key wait"},
        {"expired", [](facts& f) { f.status = "expired"; }, cause::expired, "expired"},
        {"cancelled",
         [](facts& f) {
             f.status = "cancelled";
             f.last_error = "endpoint removed";
         },
         cause::cancelled, "cancelled: endpoint removed"},
        {"unrouted",
         [](facts& f) {
             f.status = "unrouted";
             f.endpoint.reset();
         },
         cause::unrouted, "no endpoint matches it"},
        {"unrouted for good",
         [](facts& f) {
             f.status = "unrouted";
             f.routing_gave_up = true;
         },
         cause::unrouted, "routing.unrouted_grace"},
        {"wide", [](facts& f) { f.wide = true; }, cause::routing, "routing.inline_limit"},
        {"never fanned out",
         [](facts& f) {
             f.delivery = 0;
             f.endpoint.reset();
         },
         cause::not_fanned_out, "sweep"},
        {"endpoint gone", [](facts& f) { f.endpoint_known = false; }, cause::endpoint_missing, "does not exist"},
        {"disabled",
         [](facts& f) {
             f.enabled = false;
             f.disabled_reason = "HTTP 410";
             f.disabled_at = now;
         },
         cause::disabled, "disabled (HTTP 410) since 2026-11-30T12:00:00.000Z"},
        {"paused", [](facts& f) { f.paused = true; }, cause::paused, "paused"},
        {"circuit open",
         [](facts& f) {
             f.circuit_state = "open";
             f.circuit_until = in(std::chrono::seconds{60});
             f.circuit_error = "HTTP 503";
         },
         cause::circuit_open, "circuit open until 2026-11-30T12:01:00.000Z (in 1m) (HTTP 503)"},
        {"circuit half-open", [](facts& f) { f.circuit_state = "half_open"; }, cause::circuit_half_open, "half-open"},
        {"circuit open whose time is over",
         [](facts& f) {
             f.circuit_state = "open";
             f.circuit_until = now;
         },
         cause::circuit_half_open, "half-open"},
        {"claimed",
         [](facts& f) {
             f.claimed_by = 7;
             f.claimer = "a (host, pid 9)";
             f.claimer_alive = true;
             f.claimer_lease_until = in(std::chrono::seconds{50});
         },
         cause::claimed, "claimed by relay 7, a (host, pid 9) since 2026-11-30T11:59:55.000Z"},
        {"claimed by a dead relay", [](facts& f) { f.claimed_by = 7; }, cause::claimed, "another relay takes the delivery over"},
        {"claimed while the circuit opens",
         [](facts& f) {
             f.claimed_by = 7;
             f.circuit_state = "open";
             f.circuit_until = in(std::chrono::seconds{60});
         },
         cause::claimed, "claimed by relay 7"},
        {"behind its key",
         [](facts& f) {
             f.ordering_key = "order-1";
             f.blocking_event_id = "e0";
             f.blocking_status = "pending";
         },
         cause::blocked_by_key, "blocked by ordering key 'order-1' behind event e0"},
        {"behind a failed one of its key",
         [](facts& f) {
             f.ordering_key = "k";
             f.blocking_event_id = "e0";
             f.blocking_status = "failed";
         },
         cause::blocked_by_key, "on_failed: block"},
        {"not due",
         [](facts& f) {
             f.due_at = in(std::chrono::seconds{300});
             f.attempts = 1;
             f.last_error = "HTTP 502";
         },
         cause::not_due, "not due until 2026-11-30T12:05:00.000Z (in 5m); attempt 1 of it ended: HTTP 502"},
        {"no relay", [](facts& f) { f.live_relays = 0; }, cause::no_relay, "no relay is running"},
        {"rate-limited, a relay says",
         [](facts& f) {
             f.rate_limited_now = true;
             f.rate_limit = "5/s";
         },
         cause::rate_limited, "rate-limited to 5/s"},
        {"rate-limited, by what waits before it",
         [](facts& f) {
             f.rate_limit = "5/s";
             f.due_before = {40, false};
         },
         cause::rate_limited, "rate-limited to 5/s; 40 deliveries"},
        {"held back by the rate in a relay",
         [](facts& f) {
             f.claimed_by = 7;
             f.claimer_alive = true;
             f.rate_limited_now = true;
             f.rate_limit = "5/s";
         },
         cause::rate_limited, "rate-limited to 5/s; held by relay 7"},
        {"behind others",
         [](facts& f) {
             f.due_before = {1000, true};
         },
         cause::waiting, "1000+ deliveries of the lane are before it"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.what);
        auto f = due();
        r.change(f);
        const auto e = admin::explain(f, "");
        CHECK(admin::to_string(e.why) == admin::to_string(r.expected));
        CHECK_THAT(e.text, Contains(r.text));
    }
}

TEST_CASE("a cause that ends by itself says when", "[admin][why]") {
    auto f = due();
    f.due_at = in(std::chrono::seconds{30});
    CHECK(admin::explain(f, "").until == f.due_at);
    CHECK_FALSE(admin::explain(due(), "").until.has_value());
}

TEST_CASE("the default rate limit stands in where the endpoint has none", "[admin][why]") {
    auto f = due();
    f.due_before = {3, false};
    CHECK_THAT(admin::explain(f, "100/s").text, Contains("100/s"));
    f.rate_limit = "1/s";
    CHECK_THAT(admin::explain(f, "100/s").text, Contains("to 1/s"));
}
