// The Idempotency-Key field and the RFC 8941 string that its structured form is. Floor 1, pure.
#pragma once

#include <string>
#include <string_view>

#include "wire/endpoint.hpp"

namespace outboxd::wire {

// True for the ids that the database admits: 1..128 of `A-Za-z0-9_-`. Anything else could forge a header or make a signature ambiguous (a dot).
[[nodiscard]] bool is_event_id(std::string_view text) noexcept;
// Appends the key: the event's id as it is, or as a structured string (draft-ietf-httpapi-idempotency-key-header).
void append_idempotency_key(std::string& out, std::string_view event_id, idempotency_key_format format);
// RFC 8941 3.3.3: quoted, `"` and `\` escaped. The text must be printable ASCII.
void append_sf_string(std::string& out, std::string_view text);

}  // namespace outboxd::wire
