#include "admin/api_json.hpp"

#include "admin/json_writer.hpp"
#include "admin/why.hpp"

namespace outboxd::admin {
namespace {

void put(json_writer& w, std::string_view name, const ports::bounded_count& c) {
    w.member(name, c.n);
    if (c.at_least) w.member(std::string{name} + "_at_least", true);
}

void put(json_writer& w, const ports::relay_view& r) {
    w.begin_object()
        .member("id", r.id)
        .member("name", r.name)
        .member("host", r.host)
        .member("pid", r.pid)
        .member("version", r.version)
        .member("alive", r.alive);
    w.member("started_at", r.started_at).member("lease_until", r.lease_until).member("listening", r.listening).member("in_flight", r.in_flight);
    w.key("info").raw(r.info.empty() ? "{}" : r.info).end_object();
}

void put(json_writer& w, const ports::circuit_view& c) {
    w.begin_object().member("lane", c.lane).member("state", c.state).member("failures", c.failures).member("opens", c.opens);
    w.member("opened_at", c.opened_at).member("open_until", c.open_until).text_or_null("last_error", c.last_error).end_object();
}

void put(json_writer& w, const ports::lane_view& l) {
    w.begin_object().member("lane", l.lane).member("state", l.state);
    put(w, "due", l.due);
    put(w, "scheduled", l.scheduled);
    put(w, "with_ordering_key", l.keyed);
    put(w, "failed", l.failed);
    w.member("oldest_due_seconds", l.oldest_due_seconds).end_object();
}

void put_members(json_writer& w, const ports::event_view& e) {
    w.member("id", e.id)
        .member("event_id", e.event_id)
        .member("event_type", e.event_type)
        .member("tenant_id", e.tenant_id)
        .member("endpoint", e.endpoint)
        .member("url", e.url);
    w.member("breaker_key", e.breaker_key)
        .member("ordering_key", e.ordering_key)
        .member("subject", e.subject)
        .member("source", e.source)
        .member("traceparent", e.traceparent);
    w.text_or_null("content_type", e.content_type).member("size", e.size).key("headers").begin_array();
    for (const auto& name : e.header_names) w.value(name);
    w.end_array().member("created_at", e.created_at).member("deliver_at", e.deliver_at).member("expires_at", e.expires_at);
    if (e.max_attempts > 0) w.member("max_attempts", e.max_attempts);
}

void put(json_writer& w, const ports::delivery_facts& f, std::string_view rate_limit) {
    const auto e = explain(f, rate_limit);
    w.begin_object()
        .member("event", f.event)
        .member("event_id", f.event_id)
        .member("event_type", f.event_type)
        .member("endpoint", f.endpoint)
        .member("url", f.url);
    if (f.delivery != 0) w.member("delivery", f.delivery);
    w.member("status", f.status).member("attempts", f.attempts).text_or_null("last_outcome", f.last_outcome).text_or_null("last_error", f.last_error);
    w.member("next_attempt_at", f.next_attempt_at).member("published_at", f.published_at).member("created_at", f.created_at);
    w.member("ordering_key", f.ordering_key).member("cause", to_string(e.why)).member("until", e.until).member("why", e.text).end_object();
}

void put(json_writer& w, const ports::attempt_view& a) {
    w.begin_object().member("id", a.id).member("delivery", a.delivery).member("endpoint", a.endpoint).member("attempt", a.attempt).member("outcome", a.outcome);
    if (a.http_status > 0) w.member("http_status", a.http_status);
    w.text_or_null("error_class", a.error_class).text_or_null("error", a.error).text_or_null("response_excerpt", a.response_excerpt);
    w.member("duration_ms", a.duration_ms).key("phases").begin_object();
    for (const auto& [name, ms] :
         {std::pair{"dns_ms", a.dns_ms}, std::pair{"connect_ms", a.connect_ms}, std::pair{"tls_ms", a.tls_ms}, std::pair{"first_byte_ms", a.first_byte_ms}}) {
        if (ms >= 0) w.member(name, ms);
    }
    w.end_object().member("started_at", a.started_at).member("finished_at", a.finished_at).member("next_attempt_at", a.next_attempt_at);
    if (a.relay != 0) w.member("relay", a.relay);
    w.end_object();
}

void put(json_writer& w, const ports::delivery_view& d) {
    w.begin_object()
        .member("id", d.id)
        .member("event", d.event)
        .member("event_id", d.event_id)
        .member("event_type", d.event_type)
        .member("endpoint", d.endpoint)
        .member("lane", d.lane);
    w.member("ordering_key", d.ordering_key).member("status", d.status).member("attempts", d.attempts).member("rescued", d.rescued).member("size", d.size);
    if (d.claimed_by != 0) w.member("claimed_by", d.claimed_by);
    w.member("due_at", d.due_at).member("expires_at", d.expires_at).member("blocks", d.blocks).text_or_null("last_error", d.last_error).end_object();
}

void put(json_writer& w, const ports::endpoint_view& e) {
    w.begin_object().member("name", e.name).member("url", e.url).member("tenant_id", e.tenant_id).key("events").begin_array();
    for (const auto& pattern : e.events) w.value(pattern);
    w.end_array()
        .member("enabled", e.enabled)
        .member("paused", e.paused)
        .text_or_null("disabled_reason", e.disabled_reason)
        .member("disabled_at", e.disabled_at);
    w.member("managed_by", e.managed_by).member("circuit", e.circuit_state.empty() ? std::string_view{"closed"} : std::string_view{e.circuit_state});
    put(w, "pending", e.pending);
    put(w, "failed", e.failed);
    w.member("created_at", e.created_at)
        .member("updated_at", e.updated_at)
        .member("last_success_at", e.last_success_at)
        .member("failing_since", e.failing_since);
    w.key("settings").raw(e.settings.empty() ? "{}" : e.settings);
    if (!e.secrets.empty()) {
        w.key("secrets").begin_array();
        for (const auto& s : e.secrets) w.begin_object().member("id", s.id).member("created_at", s.created_at).member("expires_at", s.expires_at).end_object();
        w.end_array();
    }
    w.end_object();
}

template <class T>
void put_list(json_writer& w, const std::vector<T>& list) {
    w.begin_array();
    for (const auto& item : list) put(w, item);
    w.end_array();
}

template <class T>
std::string list_of(const std::vector<T>& list) {
    json_writer w;
    put_list(w, list);
    return w.take();
}

}  // namespace

std::string to_json(const ports::status_report& s) {
    json_writer w;
    w.begin_object().member("now", s.now).member("schema", s.schema).member("schema_version", s.schema_version).key("deliveries").begin_object();
    put(w, "due", s.due);
    put(w, "scheduled", s.scheduled);
    put(w, "claimed", s.claimed);
    put(w, "failed", s.failed);
    put(w, "unrouted", s.unrouted);
    w.member("live_estimate", s.live_estimate).end_object().member("oldest_due_seconds", s.oldest_due_seconds);
    w.key("rates").begin_object().member("window_seconds", s.rate_window_seconds).member("published_per_second", s.published_per_second);
    w.member("retried_per_second", s.retried_per_second).member("failed_per_second", s.failed_per_second).end_object();
    w.key("relays");
    put_list(w, s.relays);
    w.key("circuits");
    put_list(w, s.circuits);
    w.key("lanes");
    put_list(w, s.lanes);
    w.member("more_lanes", s.more_lanes).key("blocked_keys").begin_array();
    for (const auto& b : s.blocked) {
        w.begin_object()
            .member("lane", b.lane)
            .member("ordering_key", b.ordering_key)
            .member("event_id", b.event_id)
            .member("event", b.event)
            .member("delivery", b.delivery);
        put(w, "waiting", b.waiting);
        w.end_object();
    }
    w.end_array().end_object();
    return w.take();
}

std::string to_json(const std::vector<ports::relay_view>& list) {
    return list_of(list);
}
std::string to_json(const std::vector<ports::circuit_view>& list) {
    return list_of(list);
}
std::string to_json(const std::vector<ports::delivery_view>& list) {
    return list_of(list);
}
std::string to_json(const std::vector<ports::endpoint_view>& list) {
    return list_of(list);
}

std::string to_json(const std::vector<ports::event_view>& list) {
    json_writer w;
    w.begin_array();
    for (const auto& e : list) {
        w.begin_object();
        put_members(w, e);
        w.member("statuses", e.statuses).end_object();
    }
    w.end_array();
    return w.take();
}

std::string to_json(const ports::endpoint_view& endpoint) {
    json_writer w;
    put(w, endpoint);
    return w.take();
}

std::string to_json(const std::vector<ports::delivery_facts>& facts, std::string_view default_rate_limit) {
    json_writer w;
    w.begin_array();
    for (const auto& f : facts) put(w, f, default_rate_limit);
    w.end_array();
    return w.take();
}

std::string to_json(const ports::event_view& event, const std::vector<ports::delivery_facts>& deliveries, const std::vector<ports::attempt_view>& attempts,
                    std::string_view default_rate_limit) {
    json_writer w;
    w.begin_object();
    put_members(w, event);
    w.key("deliveries").begin_array();
    for (const auto& f : deliveries) put(w, f, default_rate_limit);
    w.end_array().key("attempts");
    put_list(w, attempts);
    w.end_object();
    return w.take();
}

std::string to_json(const ports::delivery_facts& delivery, const std::vector<ports::attempt_view>& attempts, std::string_view default_rate_limit) {
    json_writer w;
    w.begin_object().key("delivery");
    put(w, delivery, default_rate_limit);
    w.key("attempts");
    put_list(w, attempts);
    w.end_object();
    return w.take();
}

}  // namespace outboxd::admin
