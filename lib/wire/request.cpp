#include "wire/request.hpp"

#include <algorithm>
#include <charconv>

#include "base/encoding.hpp"
#include "wire/body_format.hpp"
#include "wire/headers.hpp"
#include "wire/idempotency_key.hpp"
#include "wire/signature/sign.hpp"

namespace outboxd::wire {

namespace {

// A whole number as text on the stack.
class digits {
public:
    explicit digits(std::int64_t value) : end_(std::to_chars(room_, room_ + sizeof room_, value).ptr) {}
    digits(const digits&) = delete;  // end_ points into the object
    digits& operator=(const digits&) = delete;
    [[nodiscard]] std::string_view text() const noexcept { return {room_, static_cast<std::size_t>(end_ - room_)}; }

private:
    char room_[24];
    char* end_;
};

void append_field(std::string& out, std::string_view name, std::string_view value) {
    const auto first = value.find_first_not_of(" \t");
    if (first != std::string_view::npos) value = value.substr(first, value.find_last_not_of(" \t") - first + 1);
    out.append(name).append(": ").append(value).append("\r\n");
}

refusal refuse(refusal_kind kind, std::string text) {
    return refusal{kind, std::move(text)};
}

bool names_header(const header_list& fields, std::string_view name) {
    return std::any_of(fields.begin(), fields.end(), [name](const auto& f) { return base::iequals(f.first, name); });
}

// The database checks all this too; rows of an older schema or a restored dump must still not be able to forge a field.
std::optional<refusal> check_event(const event& e) {
    if (e.body_left_out) return refuse(refusal_kind::payload, "the payload is larger than what is fetched for sending");
    if (!is_event_id(e.event_id)) return refuse(refusal_kind::header, "the event id is not 1 to 128 characters of A-Za-z0-9_-");
    if (e.event_type.empty() || !is_field_value(e.event_type)) return refuse(refusal_kind::header, "the event type is empty or holds a control character");
    if (!e.content_type.empty()) {
        if (const auto ok = check_content_type(e.content_type); !ok) return refuse(refusal_kind::header, ok.error().text);
    }
    if (e.traceparent && !e.traceparent->empty()) {
        if (const auto ok = check_traceparent(*e.traceparent); !ok) return refuse(refusal_kind::header, ok.error().text);
    }
    if (e.tracestate && !e.tracestate->empty()) {
        if (const auto ok = check_tracestate(*e.tracestate); !ok) return refuse(refusal_kind::header, ok.error().text);
    }
    return std::nullopt;
}

}  // namespace

request_builder::request_builder(url address, request_profile profile, std::string_view user_agent)
    : address_(std::move(address)), profile_(std::move(profile)) {
    head_start_.append(profile_.method).append(" ").append(address_.target).append(" HTTP/1.1\r\nHost: ").append(address_.authority);
    head_start_.append("\r\nUser-Agent: ").append(user_agent).append("\r\nContent-Type: ");
    for (const auto& [name, value] : profile_.own_headers) append_field(own_fields_, name, value);
}

std::optional<refusal> request_builder::build(const event& e, int attempt, std::optional<body_format> pinned, base::wall_time now, std::string_view nonce,
                                              request& out) const {
    if (auto fault = check_event(e)) return fault;
    header_list event_fields;
    if (!e.headers.empty()) {
        auto parsed = parse_event_headers(e.headers);
        if (!parsed) return refuse(refusal_kind::header, parsed.error().text);
        event_fields = std::move(*parsed);
    }
    const auto format = pinned.value_or(profile_.format);
    out.body_is_event = body_is_own(format);
    out.body.clear();
    if (!out.body_is_event) append_body(out.body, format, e);
    const auto body = out.body_view(e);
    const auto content_type = content_type_of(format, e);
    const auto second = std::chrono::floor<base::seconds>(now).time_since_epoch().count();
    const digits timestamp{second};

    auto& head = out.head;
    head.assign(head_start_);
    head.append(content_type).append("\r\nContent-Length: ").append(digits{static_cast<std::int64_t>(body.size())}.text());
    head.append("\r\nwebhook-id: ").append(e.event_id).append("\r\nwebhook-timestamp: ").append(timestamp.text()).append("\r\n");
    const signature_input input{
        profile_.method, address_.tls ? "https" : "http", address_.authority, address_.target, content_type, e.event_id, timestamp.text(), second, body, nonce};
    if (const auto ok = append_signature_fields(head, profile_.signer, input); !ok) return refuse(refusal_kind::signing, ok.error().text);
    append_idempotency_key(head.append("Idempotency-Key: "), e.event_id, profile_.key_format);
    head.append("\r\nOutbox-Event-Type: ").append(e.event_type).append("\r\nOutbox-Attempt: ").append(digits{attempt}.text());
    head.append("\r\nOutbox-Sequence: ").append(digits{e.id}.text()).append("\r\n");
    if (e.traceparent && !e.traceparent->empty()) append_field(head, "traceparent", *e.traceparent);
    if (e.tracestate && !e.tracestate->empty()) append_field(head, "tracestate", *e.tracestate);
    if (format == body_format::cloudevents_binary) append_cloudevents_fields(head, e);
    append_own_fields(head, event_fields);
    head.append("\r\n");
    return std::nullopt;
}

// A field that both the endpoint and the event name is sent once, as the event has it (B34).
void request_builder::append_own_fields(std::string& head, const header_list& event_fields) const {
    if (event_fields.empty()) {
        head.append(own_fields_);
        return;
    }
    for (const auto& [name, value] : profile_.own_headers) {
        if (!names_header(event_fields, name)) append_field(head, name, value);
    }
    for (const auto& [name, value] : event_fields) append_field(head, name, value);
}

}  // namespace outboxd::wire
