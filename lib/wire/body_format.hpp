// Bodies and the fields that go with them, made from the immutable event row alone: every attempt gives the same bytes. Floor 1, pure.
#pragma once

#include <string>
#include <string_view>

#include "wire/endpoint.hpp"
#include "wire/event.hpp"

namespace outboxd::wire {

// True when the body on the wire is the event's own (raw, cloudevents-binary).
[[nodiscard]] bool body_is_own(body_format format) noexcept;
// Content-Type of the request: the event's, or the default of its column; application/json for `enriched`, application/cloudevents+json for
// `cloudevents-structured`.
[[nodiscard]] std::string_view content_type_of(body_format format, const event& e) noexcept;
// `enriched`: {id,type,sequence,created_at,tenant,subject,source,content_type?,data|data_base64}; unset text members are null. `data` holds the payload's own
// bytes, `data_base64` those of payload_bytes. `cloudevents-structured`: CloudEvents 1.0 JSON format; `data` only where the data's media type is JSON, else
// `data_base64`.
void append_body(std::string& out, body_format format, const event& e);
// `cloudevents-binary`: the lines `ce-...: value`, percent-encoded by the HTTP binding 3.1.3.2. Other formats: nothing.
void append_cloudevents_fields(std::string& out, const event& e);

}  // namespace outboxd::wire
