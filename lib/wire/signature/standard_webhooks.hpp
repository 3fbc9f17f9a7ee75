// The signature of Standard Webhooks (github.com/standard-webhooks, spec section "Signature scheme"). Floor 1, pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/signature/signing_key.hpp"

namespace outboxd::wire {

// Appends `v1,<base64>` (HMAC) or `v1a,<base64>` (ed25519) for each key, separated by spaces, in the order of the keys. Signed is `id.timestamp.body`.
void append_standard_webhooks(std::string& out, const std::vector<signing_key>& keys, std::string_view id, std::string_view timestamp, std::string_view body);

}  // namespace outboxd::wire
