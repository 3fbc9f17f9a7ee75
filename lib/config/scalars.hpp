// The forms that single values may have: decimal only, units always, nothing guessed. Floor 2, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"

namespace outboxd::config {

// `0`, `42`, `-1`: no plus sign, no leading zero, no 0x, no separators, no exponent.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text) noexcept;
// `0`, `0.2`, `2`: digits with at most one point between them.
[[nodiscard]] std::optional<double> parse_decimal(std::string_view text) noexcept;
// `512B`, `64KiB`, `1MiB`, `2GiB` as bytes.
[[nodiscard]] std::optional<std::int64_t> parse_size(std::string_view text) noexcept;
[[nodiscard]] std::string format_size(std::int64_t bytes);
// `100/s`, `6000/m`, `36000/h` as a rate per second.
[[nodiscard]] std::optional<double> parse_rate(std::string_view text) noexcept;

}  // namespace outboxd::config
