#include "wire/body_format.hpp"

#include "base/encoding.hpp"

namespace outboxd::wire {

namespace {

// CloudEvents wants a source; an event without one comes from this product.
constexpr std::string_view default_source = "urn:outboxd";

std::string_view data_content_type(const event& e) noexcept {
    if (!e.content_type.empty()) return e.content_type;
    return e.body_is_json ? "application/json" : "application/octet-stream";
}

// `application/json`, `text/json`, `application/problem+json; charset=utf-8` ... (CloudEvents JSON format 3.1)
bool is_json_type(std::string_view content_type) {
    auto type = base::to_lower_ascii(content_type.substr(0, content_type.find_first_of("; \t")));
    return type.ends_with("/json") || type.ends_with("+json");
}

bool has_text(const std::optional<std::string>& value) noexcept {
    return value && !value->empty();
}

std::string_view source_of(const event& e) noexcept {
    return has_text(e.source) ? std::string_view{*e.source} : default_source;
}

void member(std::string& out, std::string_view name, std::string_view value) {
    out.append(",\"").append(name).append("\":\"").append(base::json_escape(value)) += '"';
}

void member_or_null(std::string& out, std::string_view name, const std::optional<std::string>& value) {
    if (value)
        member(out, name, *value);
    else
        out.append(",\"").append(name).append("\":null");
}

void data_member(std::string& out, const event& e, bool verbatim) {
    if (verbatim) {
        out.append(",\"data\":").append(e.body);
        return;
    }
    out.append(",\"data_base64\":\"");
    base::append_base64(out, e.body);
    out += '"';
}

void append_enriched(std::string& out, const event& e) {
    out.append("{\"id\":\"").append(base::json_escape(e.event_id)) += '"';
    member(out, "type", e.event_type);
    out.append(",\"sequence\":").append(std::to_string(e.id));
    member(out, "created_at", base::format_rfc3339(e.created_at));
    member_or_null(out, "tenant", e.tenant_id);
    member_or_null(out, "subject", e.subject);
    member_or_null(out, "source", e.source);
    // Only where it says something: the type of bytes, or of JSON that is more than application/json.
    if (!e.body_is_json || !e.content_type.empty()) member(out, "content_type", data_content_type(e));
    data_member(out, e, e.body_is_json);
    out += '}';
}

void append_structured(std::string& out, const event& e) {
    out.append("{\"specversion\":\"1.0\"");
    member(out, "id", e.event_id);
    member(out, "source", source_of(e));
    member(out, "type", e.event_type);
    if (has_text(e.subject)) member(out, "subject", *e.subject);
    member(out, "time", base::format_rfc3339(e.created_at));
    member(out, "sequence", std::to_string(e.id));
    if (has_text(e.tenant_id)) member(out, "tenantid", *e.tenant_id);
    if (has_text(e.traceparent)) member(out, "traceparent", *e.traceparent);
    if (has_text(e.tracestate)) member(out, "tracestate", *e.tracestate);
    member(out, "datacontenttype", data_content_type(e));
    data_member(out, e, e.body_is_json && is_json_type(data_content_type(e)));
    out += '}';
}

void field(std::string& out, std::string_view name, std::string_view value) {
    out.append(name).append(base::percent_encode_header(value)).append("\r\n");
}

}  // namespace

bool body_is_own(body_format format) noexcept {
    return format == body_format::raw || format == body_format::cloudevents_binary;
}

std::string_view content_type_of(body_format format, const event& e) noexcept {
    if (format == body_format::enriched) return "application/json";
    if (format == body_format::cloudevents_structured) return "application/cloudevents+json";
    return data_content_type(e);
}

void append_body(std::string& out, body_format format, const event& e) {
    if (format == body_format::enriched)
        append_enriched(out, e);
    else if (format == body_format::cloudevents_structured)
        append_structured(out, e);
    else
        out.append(e.body);
}

void append_cloudevents_fields(std::string& out, const event& e) {
    field(out, "ce-specversion: ", "1.0");
    field(out, "ce-id: ", e.event_id);
    field(out, "ce-source: ", source_of(e));
    field(out, "ce-type: ", e.event_type);
    if (has_text(e.subject)) field(out, "ce-subject: ", *e.subject);
    field(out, "ce-time: ", base::format_rfc3339(e.created_at));
    field(out, "ce-sequence: ", std::to_string(e.id));
    if (has_text(e.tenant_id)) field(out, "ce-tenantid: ", *e.tenant_id);
    if (has_text(e.traceparent)) field(out, "ce-traceparent: ", *e.traceparent);
    if (has_text(e.tracestate)) field(out, "ce-tracestate: ", *e.tracestate);
}

}  // namespace outboxd::wire
