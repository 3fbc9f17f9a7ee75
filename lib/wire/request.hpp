// From an event and an endpoint to the bytes on the wire. Floor 1, pure: `now` and random bytes are arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/time.hpp"
#include "wire/endpoint.hpp"
#include "wire/event.hpp"

namespace outboxd::wire {

// Why a request can never be built for this event: settles the delivery `failed` with this class and sentence.
enum class refusal_kind : std::uint8_t { header, payload, url, signing };
struct refusal {
    refusal_kind kind{refusal_kind::header};
    std::string text;
};

struct request {
    std::string head;  // request line and header fields with the final empty line
    std::string body;  // owned only when the format is not `raw`; else use the event's own bytes
    bool body_is_event{true};
    [[nodiscard]] std::string_view body_view(const event& e) const noexcept { return body_is_event ? std::string_view{e.body} : std::string_view{body}; }
};

// The static parts of the head for one endpoint address and profile, built once: request line, Host, User-Agent, own headers.
class request_builder {
public:
    request_builder(url address, request_profile profile, std::string_view user_agent);
    [[nodiscard]] const url& address() const noexcept { return address_; }
    [[nodiscard]] const request_profile& profile() const noexcept { return profile_; }
    // Order of fields: contract section 5. `attempt` counts from 1. `pinned` is the format of the first attempt where it differs from the profile's. `now` is
    // the wall clock for webhook-timestamp (seconds). `nonce`: 16 random bytes for the schemes rfc9421 and adcp (sent as base64url); empty otherwise. Writes
    // into `out`, whose buffers are re-used. Error: refusal.
    [[nodiscard]] std::optional<refusal> build(const event& e, int attempt, std::optional<body_format> pinned, base::wall_time now, std::string_view nonce,
                                               request& out) const;

private:
    void append_own_fields(std::string& head, const header_list& event_fields) const;

    url address_;
    request_profile profile_;
    std::string head_start_;  // request line, Host, User-Agent
    std::string own_fields_;  // the endpoint's own fields
};

}  // namespace outboxd::wire
