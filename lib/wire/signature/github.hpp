// GitHub's X-Hub-Signature-256, as its documentation on validating deliveries says. Floor 1, pure.
#pragma once

#include <string>
#include <string_view>

#include "wire/signature/signing_key.hpp"

namespace outboxd::wire {

// Appends `sha256=<hex HMAC-SHA256 of the body>`. The field has room for one signature, so only one key signs.
void append_github(std::string& out, const signing_key& key, std::string_view body);

}  // namespace outboxd::wire
