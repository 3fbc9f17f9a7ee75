// What is wrong with a file before any YAML is read: bytes, tabs, depth. Floor 2, pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/load.hpp"

namespace outboxd::config {

// Drops a byte order mark and turns CRLF into LF; line numbers stay.
[[nodiscard]] std::string normalise_text(std::string_view text);
// Problems of the text as bytes: too large, UTF-16, NUL, not UTF-8, control characters, tabs in the indentation, flow nesting too deep for a recursive reader.
[[nodiscard]] std::vector<problem> check_text(std::string_view normalised, const std::string& file);

}  // namespace outboxd::config
