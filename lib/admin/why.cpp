#include "admin/why.hpp"

#include "base/time.hpp"

namespace outboxd::admin {
namespace {

std::string at(const ports::moment& t) {
    return t ? base::format_rfc3339(*t) : std::string{"an unknown time"};
}

std::string until_with_rest(const ports::moment& t, const ports::moment& now) {
    if (!t) return "a moment that never comes";
    std::string text = base::format_rfc3339(*t);
    if (now && *t > *now) text += " (in " + base::describe_duration(std::chrono::ceil<base::milliseconds>(*t - *now)) + ")";
    return text;
}

std::string because(std::string_view what) {
    return what.empty() ? std::string{} : ": " + std::string{what};
}

std::string after_attempts(int n) {
    return n == 0 ? std::string{} : " after " + std::to_string(n) + (n == 1 ? " attempt" : " attempts");
}

// What ended the delivery, when something did.
std::optional<explanation> ended(const ports::delivery_facts& f) {
    if (f.status == "published")
        return explanation{cause::published, "published at " + at(f.published_at) + (f.attempts > 1 ? " by attempt " + std::to_string(f.attempts) : ""), {}};
    if (f.status == "failed") {
        std::string text = "failed" + after_attempts(f.attempts) + because(f.last_error);
        if (f.blocks) text += "; later events of its ordering key wait ('outboxd delivery retry', 'cancel' or 'unblock')";
        return explanation{cause::failed, text, {}};
    }
    if (f.status == "expired") return explanation{cause::expired, "expired" + after_attempts(f.attempts) + because(f.last_error), {}};
    if (f.status == "cancelled") return explanation{cause::cancelled, "cancelled" + because(f.last_error), {}};
    return std::nullopt;
}

std::optional<explanation> not_routed(const ports::delivery_facts& f) {
    if (f.wide)
        return explanation{
            cause::routing,
            std::string{
                "waiting for a relay to fan it out: it matches more endpoints than routing.inline_limit, or follows an unrouted event of its ordering key"} +
                (f.live_relays == 0 ? "; no relay is running" : ""),
            {}};
    if (f.status == "unrouted") {
        return explanation{cause::unrouted,
                           f.routing_gave_up ? "unrouted: no endpoint matched it within routing.unrouted_grace; 'outboxd delivery retry' tries again"
                                             : "unrouted: no endpoint matches it; it is routed when one appears",
                           {}};
    }
    if (f.delivery == 0)
        return explanation{cause::not_fanned_out,
                           std::string{"not fanned out yet: the trigger did not see it; a relay's sweep finds it within minutes"} +
                               (f.live_relays == 0 ? "; no relay is running" : ""),
                           {}};
    return std::nullopt;
}

std::optional<explanation> held_by_endpoint(const ports::delivery_facts& f) {
    if (f.endpoint && !f.endpoint_known) return explanation{cause::endpoint_missing, "its endpoint does not exist any more", {}};
    if (!f.enabled)
        return explanation{cause::disabled,
                           "the endpoint is disabled" + (f.disabled_reason.empty() ? std::string{} : " (" + f.disabled_reason + ")") +
                               (f.disabled_at ? " since " + at(f.disabled_at) : ""),
                           {}};
    if (f.paused) return explanation{cause::paused, "the endpoint is paused", {}};
    if (f.claimed_by == 0 && f.circuit_state == "open" && f.circuit_until && f.now && *f.circuit_until > *f.now) {
        return explanation{cause::circuit_open,
                           "circuit open until " + until_with_rest(f.circuit_until, f.now) + (f.circuit_error.empty() ? "" : " (" + f.circuit_error + ")"),
                           f.circuit_until};
    }
    if (f.claimed_by == 0 && !f.circuit_state.empty()) {
        return explanation{
            cause::circuit_half_open,
            "circuit half-open: single probes are sent until they succeed" + (f.circuit_error.empty() ? std::string{} : " (" + f.circuit_error + ")"),
            {}};
    }
    return std::nullopt;
}

explanation claimed(const ports::delivery_facts& f) {
    const std::string who = "relay " + std::to_string(f.claimed_by) + (f.claimer.empty() ? "" : ", " + f.claimer);
    // The claim writes nothing but its owner, so its time is known only from below: not before the row was due.
    std::string text = "claimed by " + who + " since " + at(f.due_at) + " or later";
    if (f.claimer_alive) return {cause::claimed, text + "; its lease holds until " + at(f.claimer_lease_until), {}};
    return {cause::claimed,
            text + "; its lease ended" + (f.claimer_lease_until ? " at " + at(f.claimer_lease_until) : "") + ", another relay takes the delivery over",
            {}};
}

}  // namespace

std::string_view to_string(cause c) noexcept {
    switch (c) {
        case cause::published: return "published";
        case cause::failed: return "failed";
        case cause::expired: return "expired";
        case cause::cancelled: return "cancelled";
        case cause::unrouted: return "unrouted";
        case cause::routing: return "routing";
        case cause::not_fanned_out: return "not_fanned_out";
        case cause::not_due: return "not_due";
        case cause::disabled: return "disabled";
        case cause::paused: return "paused";
        case cause::endpoint_missing: return "endpoint_missing";
        case cause::circuit_open: return "circuit_open";
        case cause::circuit_half_open: return "circuit_half_open";
        case cause::blocked_by_key: return "blocked_by_key";
        case cause::claimed: return "claimed";
        case cause::rate_limited: return "rate_limited";
        case cause::no_relay: return "no_relay";
        case cause::waiting: return "waiting";
    }
    return "waiting";
}

explanation explain(const ports::delivery_facts& f, std::string_view default_rate_limit) {
    if (auto e = ended(f)) return *e;
    if (auto e = not_routed(f)) return *e;
    if (auto e = held_by_endpoint(f)) return *e;
    const std::string_view limit = f.rate_limit.empty() ? default_rate_limit : std::string_view{f.rate_limit};
    const std::string limited = "rate-limited" + (limit.empty() ? std::string{} : " to " + std::string{limit});
    // A relay holds more rows than the rate lets out: what it holds waits for the rate as well.
    if (f.claimed_by != 0 && f.claimer_alive && f.rate_limited_now)
        return {cause::rate_limited, limited + "; held by relay " + std::to_string(f.claimed_by), {}};
    if (f.claimed_by != 0) return claimed(f);
    if (!f.blocking_event_id.empty()) {
        return {cause::blocked_by_key,
                "blocked by ordering key '" + f.ordering_key.value_or("") + "' behind event " + f.blocking_event_id +
                    (f.blocking_status == "failed" ? ", which failed (on_failed: block)" : ""),
                {}};
    }
    if (f.due_at && f.now && *f.due_at > *f.now) {
        const std::string last = f.attempts > 0 && !f.last_error.empty() ? "; attempt " + std::to_string(f.attempts) + " of it ended: " + f.last_error : "";
        return {cause::not_due, "not due until " + until_with_rest(f.due_at, f.now) + last, f.due_at};
    }
    if (f.live_relays == 0) return {cause::no_relay, "due since " + at(f.due_at) + ", but no relay is running", {}};
    const std::string ahead =
        f.due_before.n == 0 ? "" : std::to_string(f.due_before.n) + (f.due_before.at_least ? "+" : "") + " deliveries of the lane are before it";
    if (f.rate_limited_now || (!limit.empty() && f.due_before.n > 0)) {
        return {cause::rate_limited, limited + (ahead.empty() ? "" : "; " + ahead), {}};
    }
    return {cause::waiting, "due since " + at(f.due_at) + (ahead.empty() ? ", a relay takes it next" : "; " + ahead), {}};
}

std::string target_of(const ports::delivery_facts& f) {
    return f.endpoint ? *f.endpoint : f.url ? *f.url : std::string{"(no endpoint)"};
}

}  // namespace outboxd::admin
