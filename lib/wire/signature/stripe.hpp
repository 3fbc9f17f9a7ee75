// The Stripe-Signature field, as its documentation on manual verification says. Floor 1, pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/signature/signing_key.hpp"

namespace outboxd::wire {

// Appends `t=<timestamp>,v1=<hex>` with one `v1` for each key. Signed is `timestamp.body`.
void append_stripe(std::string& out, const std::vector<signing_key>& keys, std::string_view timestamp, std::string_view body);

}  // namespace outboxd::wire
