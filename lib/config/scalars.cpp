#include "config/scalars.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace outboxd::config {
namespace {

struct size_unit {
    std::string_view name;
    std::int64_t bytes;
};
constexpr std::array<size_unit, 4> size_units{{{"GiB", 1LL << 30}, {"MiB", 1LL << 20}, {"KiB", 1LL << 10}, {"B", 1}}};

bool all_digits(std::string_view text) noexcept {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::int64_t> parse_whole(std::string_view text) noexcept {
    const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
    if (!all_digits(digits) || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<double> parse_decimal(std::string_view text) noexcept {
    const std::size_t point = text.find('.');
    const std::string_view whole = text.substr(0, point);
    if (text.size() > 32 || !all_digits(whole) || (whole.size() > 1 && whole.front() == '0')) return std::nullopt;
    if (point != std::string_view::npos && !all_digits(text.substr(point + 1))) return std::nullopt;
    double value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<std::int64_t> parse_size(std::string_view text) noexcept {
    for (const size_unit& unit : size_units) {
        if (!text.ends_with(unit.name)) continue;
        const auto count = parse_whole(text.substr(0, text.size() - unit.name.size()));
        if (!count || *count < 0 || *count > std::numeric_limits<std::int64_t>::max() / unit.bytes) return std::nullopt;
        return *count * unit.bytes;
    }
    return std::nullopt;
}

std::string format_size(std::int64_t bytes) {
    for (const size_unit& unit : size_units) {
        if (bytes % unit.bytes == 0 && (bytes != 0 || unit.bytes == 1)) return std::to_string(bytes / unit.bytes) + std::string(unit.name);
    }
    return std::to_string(bytes) + "B";
}

std::optional<double> parse_rate(std::string_view text) noexcept {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos || text.size() != slash + 2) return std::nullopt;
    const auto count = parse_decimal(text.substr(0, slash));
    if (!count) return std::nullopt;
    switch (text.back()) {
        case 's': return *count;
        case 'm': return *count / 60.0;
        case 'h': return *count / 3600.0;
        default: return std::nullopt;
    }
}

}  // namespace outboxd::config
