// The immutable event row as the claim returns it. Floor 1, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"

namespace outboxd::wire {

struct event {
    std::int64_t id{0};    // outbox.event.id, the sequence number
    std::string event_id;  // public id: webhook-id and idempotency key
    std::string event_type;
    std::string body;           // payload's own text or payload_bytes, byte for byte
    bool body_is_json{true};    // which column it came from
    bool body_left_out{false};  // larger than the claim's fetch limit: not fetched
    std::string content_type;   // the event's own; empty: application/json or application/octet-stream
    std::string url;            // direct address; empty otherwise
    std::string headers;        // text of the jsonb object; empty: none
    std::optional<std::string> tenant_id;
    std::optional<std::string> subject;
    std::optional<std::string> source;
    std::optional<std::string> traceparent;
    std::optional<std::string> tracestate;
    base::wall_time created_at{};
};

}  // namespace outboxd::wire
