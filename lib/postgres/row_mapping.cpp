#include "postgres/row_mapping.hpp"

#include <simdjson.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/encoding.hpp"

namespace outboxd::postgres {

namespace {

// Columns of the claim statement.
enum column : int {
    id, event_number, endpoint, lane, ordering_key, attempts, rescued, due_at, expires_at, size, format, max_attempts, report,
    event_id, event_type, payload, payload_bytes, content_type, tenant_id, url, headers, subject, source, traceparent, tracestate, created_at,
    column_count
};

int clamp32(std::int64_t value) { return static_cast<int>(std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max())); }

void text_or_null(params& p, std::string_view value) {
    if (value.empty()) {
        p.element_null();
    } else {
        p.element(value);
    }
}

// One row with bytes that are no UTF-8 would make the whole batch fail, again and again.
void clean_text_or_null(params& p, std::string_view value, std::size_t limit) {
    if (!value.empty() && (!base::is_valid_utf8(value) || value.find('\0') != std::string_view::npos)) {
        p.element(std::string_view{base::storable(value, limit)});
        return;
    }
    text_or_null(p, value);
}

void phase(params& p, int value) {
    if (value < 0) {
        p.element_null();
    } else {
        p.element32(value);
    }
}

wire::event read_event(const query_result& r, int row, std::int64_t fetched_size) {
    wire::event e;
    e.id = r.integer(row, event_number);
    e.event_id = r.string(row, event_id);
    e.event_type = r.string(row, event_type);
    if (!r.is_null(row, payload)) {
        e.body = r.string(row, payload);
    } else if (!r.is_null(row, payload_bytes)) {
        e.body = r.string(row, payload_bytes);
        e.body_is_json = false;
    } else {
        e.body_left_out = fetched_size > 0;
    }
    e.content_type = r.string(row, content_type);
    e.url = r.string(row, url);
    e.headers = r.string(row, headers);
    e.tenant_id = r.optional_string(row, tenant_id);
    e.subject = r.optional_string(row, subject);
    e.source = r.optional_string(row, source);
    e.traceparent = r.optional_string(row, traceparent);
    e.tracestate = r.optional_string(row, tracestate);
    e.created_at = r.time(row, created_at);
    return e;
}

ports::claimed read_claimed(const query_result& r, int row) {
    ports::claimed c;
    c.delivery = r.integer(row, id);
    c.endpoint = r.optional_string(row, endpoint);
    c.lane = r.string(row, lane);
    c.ordering_key = r.optional_string(row, ordering_key);
    c.attempts = clamp32(r.integer(row, attempts));
    c.rescued = clamp32(r.integer(row, rescued));
    c.due_at = r.time(row, due_at);
    if (!r.is_null(row, expires_at)) c.expires_at = r.time(row, expires_at);
    c.size = r.integer(row, size);
    c.format = r.string(row, format);
    c.max_attempts = clamp32(r.integer(row, max_attempts));
    c.event_missing = r.is_null(row, event_id);
    c.event = read_event(r, row, c.size);
    return c;
}

// {"now": seconds, "xmin": n, "xmax": n, "cursor": text or null, "wrapped": bool, "more": bool, "keys": {lane: key or null}}
bool read_report(std::string_view text, ports::claim_reply& reply) {
    thread_local simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (parser.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS) return false;
    double now = 0;
    if (root["now"].get(now) != simdjson::SUCCESS) return false;
    reply.now = base::wall_time{base::microseconds{static_cast<std::int64_t>(now * 1e6)}};
    if (root["xmin"].get(reply.xmin) != simdjson::SUCCESS || root["xmax"].get(reply.xmax) != simdjson::SUCCESS) return false;
    std::string_view cursor;
    if (root["cursor"].get(cursor) == simdjson::SUCCESS) reply.cursor = cursor;
    bool wrapped = false;
    if (root["wrapped"].get(wrapped) == simdjson::SUCCESS) reply.wrapped = wrapped;
    bool more = false;
    if (root["more"].get(more) == simdjson::SUCCESS) reply.more = more;
    simdjson::dom::object keys;
    if (root["keys"].get(keys) != simdjson::SUCCESS) return true;
    for (const auto& [name, value] : keys) {
        std::string_view key;
        if (value.get(key) != simdjson::SUCCESS) key = {};
        reply.keys.emplace_back(name, key);
    }
    return true;
}

}  // namespace

params claim_params(const ports::claim_request& request) {
    const auto& lanes = request.lanes;
    params p;
    p.int8(request.relay).int4(request.epoch);
    p.begin_array(type_oid::text_array, lanes.size());
    for (const auto& l : lanes) p.element(std::string_view{l.lane});
    p.begin_array(type_oid::int4_array, lanes.size());
    for (const auto& l : lanes) p.element32(l.limit);
    p.begin_array(type_oid::timestamptz_array, lanes.size());
    for (const auto& l : lanes) {
        if (l.bound) {
            p.element(l.bound->due_at);
        } else {
            p.element_null();
        }
    }
    p.begin_array(type_oid::int8_array, lanes.size());
    for (const auto& l : lanes) {
        if (l.bound) {
            p.element(l.bound->id);
        } else {
            p.element_null();
        }
    }
    p.begin_array(type_oid::text_array, lanes.size());
    for (const auto& l : lanes) text_or_null(p, l.after_key);
    p.text_array(request.exclude);
    p.typed_text(request.discover_after.empty() ? std::nullopt : std::optional<std::string_view>{request.discover_after});
    p.int4(request.discover_lanes).int4(request.discover_limit).int4(request.max_rows).int8(request.max_bytes).int4(clamp32(request.fetch_max));
    return p;
}

base::result<ports::claim_reply> read_claim(const query_result& r) {
    if (r.columns() != column_count) return base::make_error(base::errc::database_schema, "the claim gives other columns than this version expects");
    ports::claim_reply reply;
    bool reported = false;
    reply.rows.reserve(static_cast<std::size_t>(std::max(r.rows() - 1, 0)));
    for (int row = 0; row < r.rows(); ++row) {
        if (!r.is_null(row, id)) {
            reply.rows.push_back(read_claimed(r, row));
        } else if (!r.is_null(row, report)) {
            reported = read_report(r.text(row, report), reply);
        }
    }
    if (!reported) return base::make_error(base::errc::internal, "the claim's report cannot be read");
    return reply;
}

params settle_params(std::int64_t relay, const std::vector<lifecycle::settlement>& batch, base::boot_time now) {
    const auto n = batch.size();
    // In order of id: settle() then need not sort when all are published.
    std::vector<std::reference_wrapper<const lifecycle::settlement>> in_order(batch.begin(), batch.end());
    std::sort(in_order.begin(), in_order.end(), [](const lifecycle::settlement& a, const lifecycle::settlement& b) { return a.delivery < b.delivery; });
    params p;
    p.int8(relay);
    p.begin_array(type_oid::int8_array, n);
    for (const lifecycle::settlement& s : in_order) p.element(s.delivery);
    p.begin_array(type_oid::text_array, n);
    for (const lifecycle::settlement& s : in_order) p.element(lifecycle::to_string(s.outcome));
    p.begin_array(type_oid::boolean_array, n);
    for (const lifecycle::settlement& s : in_order) p.element(s.counts);
    p.begin_array(type_oid::int4_array, n);
    for (const lifecycle::settlement& s : in_order) phase(p, s.http_status == 0 ? -1 : s.http_status);
    p.begin_array(type_oid::text_array, n);
    for (const lifecycle::settlement& s : in_order) text_or_null(p, lifecycle::to_string(s.error_class));
    p.begin_array(type_oid::text_array, n);
    for (const lifecycle::settlement& s : in_order) clean_text_or_null(p, s.error, 500);
    p.begin_array(type_oid::text_array, n);
    for (const lifecycle::settlement& s : in_order) clean_text_or_null(p, s.response_excerpt, 1024);
    p.begin_array(type_oid::int4_array, n);
    for (const lifecycle::settlement& s : in_order) p.element32(s.duration_ms);
    p.begin_array(type_oid::int4_array, n);
    for (const lifecycle::settlement& s : in_order) {
        const auto ago = s.started == base::boot_time{} ? base::milliseconds{0} : std::chrono::duration_cast<base::milliseconds>(now - s.started);
        p.element32(clamp32(std::max<std::int64_t>(ago.count(), 0)));
    }
    p.begin_array(type_oid::int8_array, n);
    for (const lifecycle::settlement& s : in_order) {
        if (s.retry_in) {
            p.element(std::int64_t{s.retry_in->count()});
        } else {
            p.element_null();
        }
    }
    p.begin_array(type_oid::int4_array, n * 4);
    for (const lifecycle::settlement& s : in_order) {
        phase(p, s.phases.dns);
        phase(p, s.phases.connect);
        phase(p, s.phases.tls);
        phase(p, s.phases.first_byte);
    }
    p.begin_array(type_oid::text_array, n);
    for (const lifecycle::settlement& s : in_order) text_or_null(p, s.format);
    p.begin_array(type_oid::boolean_array, n);
    for (const lifecycle::settlement& s : in_order) p.element(s.blocks);
    return p;
}

params note_params(const std::vector<ports::endpoint_note>& notes) {
    params p;
    p.begin_array(type_oid::text_array, notes.size());
    for (const auto& n : notes) p.element(std::string_view{n.name});
    for (const auto member : {&ports::endpoint_note::failing_for, &ports::endpoint_note::last_success, &ports::endpoint_note::disable_after}) {
        p.begin_array(type_oid::int8_array, notes.size());
        for (const auto& n : notes) {
            if (n.*member) {
                p.element(std::int64_t{(n.*member)->count()});
            } else {
                p.element_null();
            }
        }
    }
    return p;
}

std::vector<ports::endpoint_row> read_endpoints(const query_result& r) {
    std::vector<ports::endpoint_row> rows;
    for (int row = 0; row < r.rows(); ++row) {
        if (rows.empty() || rows.back().name != r.text(row, 0)) {
            ports::endpoint_row e;
            e.name = r.string(row, 0);
            e.url = r.string(row, 1);
            e.tenant_id = r.optional_string(row, 2);
            e.enabled = r.boolean(row, 3);
            e.paused = r.boolean(row, 4);
            e.disabled_reason = r.string(row, 5);
            e.settings = r.string(row, 6);
            e.managed_by = r.string(row, 7);
            if (!r.is_null(row, 10)) e.failing_for = base::milliseconds{r.integer(row, 10)};
            rows.push_back(std::move(e));
        }
        if (r.is_null(row, 8)) continue;
        std::optional<base::milliseconds> expires;
        if (!r.is_null(row, 9)) expires = base::milliseconds{r.integer(row, 9)};
        rows.back().secrets.emplace_back(r.string(row, 8), expires);
    }
    return rows;
}

ports::circuit_row read_circuit(const query_result& r, int row) {
    ports::circuit_row c;
    c.lane = r.string(row, 0);
    c.state = r.text(row, 1) == "half_open" ? lifecycle::circuit_state::half_open : lifecycle::circuit_state::open;
    c.opens_for = base::milliseconds{r.integer(row, 2)};
    c.last_error = r.string(row, 3);
    return c;
}

}  // namespace outboxd::postgres
