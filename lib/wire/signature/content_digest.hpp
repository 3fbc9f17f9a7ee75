// SHA-256 and the Content-Digest field. Floor 1, pure.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace outboxd::wire {

[[nodiscard]] std::array<char, 32> sha256(std::string_view bytes);
// Appends `sha-256=:<base64>:`. RFC 9530 section 2.
void append_content_digest(std::string& out, std::string_view body);
// True when a received Content-Digest field holds the body's SHA-256; other algorithms beside it are ignored, without a sha-256 it is false.
[[nodiscard]] bool content_digest_matches(std::string_view field, std::string_view body);

}  // namespace outboxd::wire
