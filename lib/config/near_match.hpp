// What somebody may have meant by a misspelt word. Floor 2, pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outboxd::config {

// The candidate that fewest edits (insert, delete, replace, swap; letter case does not count) turn `word` into; empty when none is near.
[[nodiscard]] std::string near_match(std::string_view word, const std::vector<std::string>& candidates);
// ` (did you mean `x`?)`, or empty.
[[nodiscard]] std::string suggestion(std::string_view near);

}  // namespace outboxd::config
