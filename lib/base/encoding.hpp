// Text encodings. Floor 0, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace outboxd::base {

[[nodiscard]] std::string base64_encode(std::string_view bytes);            // RFC 4648 section 4, padded
void append_base64(std::string& out, std::string_view bytes);               // the same, into a buffer that is re-used
[[nodiscard]] result<std::string> base64_decode(std::string_view text);     // standard alphabet, padding required, no white space; never a partial result
[[nodiscard]] std::string base64url_encode(std::string_view bytes);         // RFC 4648 section 5, unpadded
[[nodiscard]] result<std::string> base64url_decode(std::string_view text);  // padding optional
[[nodiscard]] std::string hex_encode(std::string_view bytes);               // lower case
[[nodiscard]] bool is_valid_utf8(std::string_view bytes) noexcept;
// Valid UTF-8 without NUL and control bytes for logs and text columns: bad bytes become U+FFFD, control characters `\xNN`, cut at max_bytes on a character border.
[[nodiscard]] std::string printable(std::string_view bytes, std::size_t max_bytes);
// As printable, but keeps LF, CR and TAB: for response excerpts.
[[nodiscard]] std::string storable(std::string_view bytes, std::size_t max_bytes);
[[nodiscard]] std::string json_escape(std::string_view utf8);               // RFC 8259 section 7, without the quotes
[[nodiscard]] bool iequals(std::string_view a, std::string_view b) noexcept;  // ASCII case only
[[nodiscard]] std::string to_lower_ascii(std::string_view text);
[[nodiscard]] std::string percent_encode_header(std::string_view utf8);     // CloudEvents HTTP binding 3.1.3.2 header values

}  // namespace outboxd::base
