// Why a delivery is not delivered yet, or how it ended: one cause, one sentence. Floor 4 (admin), pure: the same for the command and for /api/v1/why.
#pragma once

#include <string>
#include <string_view>

#include "ports/operator_store.hpp"

namespace outboxd::admin {

enum class cause {
    published,
    failed,
    expired,
    cancelled,
    unrouted,        // no endpoint matches
    routing,         // left to a relay: wide, or behind an unrouted event of its ordering key
    not_fanned_out,  // the trigger never saw it: the sweep will
    not_due,         // deliver_at or the next attempt is ahead
    disabled,
    paused,
    endpoint_missing,
    circuit_open,
    circuit_half_open,
    blocked_by_key,
    claimed,
    rate_limited,
    no_relay,  // due, and nobody runs
    waiting,   // due, a relay will take it
};
[[nodiscard]] std::string_view to_string(cause c) noexcept;

struct explanation {
    cause why{cause::waiting};
    std::string text;     // the sentence, without the endpoint's name
    ports::moment until;  // when the cause ends by itself, as far as known
};

// `rate_limit`: the limit in force for direct URLs and endpoints without one of their own (defaults.rate_limit), as text; empty: none or not known.
// Where several causes hold, the one that an operator can act on first is named: state of the endpoint before its circuit, circuit before order, order before
// time.
[[nodiscard]] explanation explain(const ports::delivery_facts& facts, std::string_view default_rate_limit);

// `billing`, `https://host/path` of a direct URL, or `(no endpoint)`.
[[nodiscard]] std::string target_of(const ports::delivery_facts& facts);

}  // namespace outboxd::admin
