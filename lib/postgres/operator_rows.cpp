#include "postgres/operator_rows.hpp"

#include <simdjson.h>

#include <algorithm>

#include "wire/url.hpp"

namespace outboxd::postgres {
namespace {

std::optional<std::string> described(const query_result& r, int row, int column) {
    if (r.is_null(row, column)) return std::nullopt;
    return wire::describe_url(r.text(row, column));
}

int small(const query_result& r, int row, int column) {
    return static_cast<int>(r.integer(row, column));
}
int small_or(const query_result& r, int row, int column, int otherwise) {
    return r.is_null(row, column) ? otherwise : small(r, row, column);
}

}  // namespace

ports::moment moment_at(const query_result& r, int row, int column) {
    const auto us = r.optional_integer(row, column);
    if (!us) return std::nullopt;
    return base::wall_time{std::chrono::microseconds{*us}};
}

ports::bounded_count count_at(const query_result& r, int row, int column, std::int64_t limit) {
    const auto n = r.integer(row, column);
    return {std::min(n, limit), n > limit};
}

ports::relay_view relay_from(const query_result& r, int row) {
    ports::relay_view v;
    v.id = r.integer(row, 0);
    v.name = r.string(row, 1);
    v.host = r.string(row, 2);
    v.version = r.string(row, 3);
    v.pid = small(r, row, 4);
    v.started_at = moment_at(r, row, 5);
    v.lease_until = moment_at(r, row, 6);
    v.alive = r.boolean(row, 7);
    v.listening = r.boolean(row, 8);
    v.in_flight = small(r, row, 9);
    v.info = r.string(row, 10);
    return v;
}

ports::circuit_view circuit_from(const query_result& r, int row) {
    ports::circuit_view v;
    v.lane = r.string(row, 0);
    v.state = r.string(row, 1);
    v.failures = small(r, row, 2);
    v.opens = small(r, row, 3);
    v.opened_at = moment_at(r, row, 4);
    v.open_until = moment_at(r, row, 5);
    v.last_error = r.string(row, 6);
    return v;
}

ports::delivery_facts facts_from(const query_result& r, int row) {
    ports::delivery_facts f;
    f.event = r.integer(row, 0);
    f.event_id = r.string(row, 1);
    f.event_type = r.string(row, 2);
    f.endpoint = r.optional_string(row, 3);
    f.url = described(r, row, 4);
    f.delivery = r.integer(row, 5);
    f.status = r.string(row, 6);
    f.attempts = small(r, row, 7);
    f.last_outcome = r.string(row, 8);
    f.last_error = r.string(row, 9);
    f.next_attempt_at = moment_at(r, row, 10);
    f.published_at = moment_at(r, row, 11);
    f.created_at = moment_at(r, row, 12);
    f.now = moment_at(r, row, 13);
    f.lane = r.string(row, 14);
    f.ordering_key = r.optional_string(row, 15);
    f.due_at = moment_at(r, row, 16);
    f.expires_at = moment_at(r, row, 17);
    f.blocks = r.boolean(row, 18);
    f.wide = r.boolean(row, 19);
    f.routing_gave_up = r.boolean(row, 20);
    f.claimed_by = r.integer(row, 21);
    if (f.claimed_by != 0 && !r.is_null(row, 22)) f.claimer = r.string(row, 22) + " (" + r.string(row, 23) + ", pid " + r.string(row, 24) + ")";
    f.claimer_alive = r.boolean(row, 25);
    f.claimer_lease_until = moment_at(r, row, 26);
    f.endpoint_known = r.boolean(row, 27);
    f.paused = r.boolean(row, 28);
    f.enabled = r.boolean(row, 29);
    f.disabled_reason = r.string(row, 30);
    f.disabled_at = moment_at(r, row, 31);
    f.rate_limit = r.string(row, 32);
    f.circuit_state = r.string(row, 33);
    f.circuit_error = r.string(row, 34);
    f.circuit_until = moment_at(r, row, 35);
    f.blocking_event_id = r.string(row, 36);
    f.blocking_status = r.string(row, 37);
    f.due_before = count_at(r, row, 38, 1000);
    f.live_relays = small(r, row, 39);
    f.rate_limited_now = r.boolean(row, 40);
    return f;
}

ports::event_view event_from(const query_result& r, int row) {
    ports::event_view v;
    v.id = r.integer(row, 0);
    v.event_id = r.string(row, 1);
    v.event_type = r.string(row, 2);
    v.content_type = r.string(row, 3);
    v.tenant_id = r.optional_string(row, 4);
    v.endpoint = r.optional_string(row, 5);
    v.url = described(r, row, 6);
    v.breaker_key = r.optional_string(row, 7);
    v.ordering_key = r.optional_string(row, 8);
    v.subject = r.optional_string(row, 9);
    v.source = r.optional_string(row, 10);
    v.traceparent = r.optional_string(row, 11);
    std::string_view names = r.text(row, 12);
    while (!names.empty()) {
        const auto space = names.find(' ');
        v.header_names.emplace_back(names.substr(0, space));
        names.remove_prefix(space == names.npos ? names.size() : space + 1);
    }
    v.created_at = moment_at(r, row, 13);
    v.deliver_at = moment_at(r, row, 14);
    v.expires_at = moment_at(r, row, 15);
    v.max_attempts = small(r, row, 16);
    v.size = r.integer(row, 17);
    v.statuses = r.string(row, 18);
    return v;
}

ports::delivery_view delivery_from(const query_result& r, int row) {
    ports::delivery_view v;
    v.id = r.integer(row, 0);
    v.event = r.integer(row, 1);
    v.event_id = r.string(row, 2);
    v.event_type = r.string(row, 3);
    v.endpoint = r.optional_string(row, 4);
    v.lane = r.string(row, 5);
    v.ordering_key = r.optional_string(row, 6);
    v.status = r.string(row, 7);
    v.attempts = small(r, row, 8);
    v.rescued = small(r, row, 9);
    v.claimed_by = r.integer(row, 10);
    v.size = r.integer(row, 11);
    v.due_at = moment_at(r, row, 12);
    v.expires_at = moment_at(r, row, 13);
    v.blocks = r.boolean(row, 14);
    v.last_error = r.string(row, 15);
    return v;
}

ports::attempt_view attempt_from(const query_result& r, int row) {
    ports::attempt_view v;
    v.id = r.integer(row, 0);
    v.delivery = r.integer(row, 1);
    v.event = r.integer(row, 2);
    v.endpoint = r.optional_string(row, 3);
    v.attempt = small(r, row, 4);
    v.outcome = r.string(row, 5);
    v.http_status = small(r, row, 6);
    v.error_class = r.string(row, 7);
    v.error = r.string(row, 8);
    v.response_excerpt = r.string(row, 9);
    v.duration_ms = small(r, row, 10);
    v.dns_ms = small_or(r, row, 11, -1);
    v.connect_ms = small_or(r, row, 12, -1);
    v.tls_ms = small_or(r, row, 13, -1);
    v.first_byte_ms = small_or(r, row, 14, -1);
    v.started_at = moment_at(r, row, 15);
    v.finished_at = moment_at(r, row, 16);
    v.next_attempt_at = moment_at(r, row, 17);
    v.relay = r.integer(row, 18);
    return v;
}

ports::endpoint_view endpoint_from(const query_result& r, int row) {
    ports::endpoint_view v;
    v.name = r.string(row, 0);
    v.url = wire::describe_url(r.text(row, 1));
    v.managed_by = r.string(row, 2);
    v.settings = r.string(row, 3);
    v.disabled_reason = r.string(row, 4);
    v.tenant_id = r.optional_string(row, 5);
    v.events = string_list(r.text(row, 6));
    v.enabled = r.boolean(row, 7);
    v.paused = r.boolean(row, 8);
    v.disabled_at = moment_at(r, row, 9);
    v.created_at = moment_at(r, row, 10);
    v.updated_at = moment_at(r, row, 11);
    v.last_success_at = moment_at(r, row, 12);
    v.failing_since = moment_at(r, row, 13);
    v.circuit_state = r.string(row, 14);
    v.pending = count_at(r, row, 15, 1000);
    v.failed = count_at(r, row, 16, 1000);
    return v;
}

void put_moment(params& p, const ports::moment& t) {
    if (t) {
        p.int8(t->time_since_epoch().count());
    } else {
        p.null();
    }
}

base::error not_found(std::string text) {
    return base::make_error(base::errc::not_found, std::move(text));
}

std::vector<std::string> string_list(std::string_view json_array) {
    std::vector<std::string> list;
    simdjson::dom::parser parser;
    simdjson::dom::array array;
    if (parser.parse(simdjson::padded_string(json_array)).get_array().get(array) != simdjson::SUCCESS) return list;
    for (const auto item : array) {
        std::string_view text;
        if (item.get_string().get(text) == simdjson::SUCCESS) list.emplace_back(text);
    }
    return list;
}

}  // namespace outboxd::postgres
