#include "base/time.hpp"

#include <time.h>

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace outboxd::base {

namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

struct unit {
    std::string_view name;
    std::int64_t ms;
};
// Longest unit first: format_duration takes the first that divides.
constexpr std::array<unit, 5> units{{{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};

bool digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

error bad_duration(std::string_view text) {
    return make_error(errc::invalid_input,
                      "'" + std::string(text.substr(0, 40)) + "' is no duration: write a whole number and a unit, such as 250ms, 5s, 10m, 2h or 7d");
}

error bad_timestamp() {
    return make_error(errc::invalid_input, "not an RFC 3339 time: write it like 2026-11-30T19:03:47Z or 2026-11-30T20:03:47.120+01:00");
}

// Appends `value` with at least `width` digits.
void append_padded(std::string& out, std::int64_t value, int width) {
    const std::string digits = std::to_string(value);
    for (int missing = width - static_cast<int>(digits.size()); missing > 0; --missing) out += '0';
    out += digits;
}

// Reads exactly `count` digits and moves on; nullopt leaves `text` undefined.
std::optional<int> take_digits(std::string_view& text, std::size_t count) noexcept {
    if (text.size() < count) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!digit(text[i])) return std::nullopt;
        value = value * 10 + (text[i] - '0');
    }
    text.remove_prefix(count);
    return value;
}

bool take_char(std::string_view& text, std::string_view accepted) noexcept {
    if (text.empty() || accepted.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
}

// `.120457` as microseconds; further digits are cut. nullopt: a point without digits.
std::optional<microseconds> take_fraction(std::string_view& text) noexcept {
    if (!take_char(text, ".")) return microseconds{0};
    if (text.empty() || !digit(text.front())) return std::nullopt;
    std::int64_t value = 0;
    int seen = 0;
    for (; !text.empty() && digit(text.front()); text.remove_prefix(1)) {
        if (seen < 6) {
            value = value * 10 + (text.front() - '0');
            ++seen;
        }
    }
    for (; seen < 6; ++seen) value *= 10;
    return microseconds{value};
}

// `Z` or `+hh:mm`; the rest of the text must be used up.
std::optional<minutes> take_offset(std::string_view text) noexcept {
    if (text.empty()) return std::nullopt;
    const char sign = text.front();
    text.remove_prefix(1);
    if (sign == 'Z' || sign == 'z') return text.empty() ? std::optional{minutes{0}} : std::nullopt;
    if (sign != '+' && sign != '-') return std::nullopt;
    const auto hour = take_digits(text, 2);
    if (!hour || *hour > 23 || !take_char(text, ":")) return std::nullopt;
    const auto minute = take_digits(text, 2);
    if (!minute || *minute > 59 || !text.empty()) return std::nullopt;
    const minutes east = hours{*hour} + minutes{*minute};
    return sign == '+' ? east : -east;
}

std::optional<std::chrono::sys_days> take_date(std::string_view& text) noexcept {
    const auto year = take_digits(text, 4);
    if (!year || !take_char(text, "-")) return std::nullopt;
    const auto month = take_digits(text, 2);
    if (!month || !take_char(text, "-")) return std::nullopt;
    const auto day = take_digits(text, 2);
    if (!day) return std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                           std::chrono::day{static_cast<unsigned>(*day)}};
    if (!date.ok()) return std::nullopt;
    return std::chrono::sys_days{date};
}

// A leap second (`:60`) is read as the first second of the next minute, as PostgreSQL does.
std::optional<seconds> take_clock(std::string_view& text) noexcept {
    const auto hour = take_digits(text, 2);
    if (!hour || *hour > 23 || !take_char(text, ":")) return std::nullopt;
    const auto minute = take_digits(text, 2);
    if (!minute || *minute > 59 || !take_char(text, ":")) return std::nullopt;
    const auto second = take_digits(text, 2);
    if (!second || *second > 60) return std::nullopt;
    return hours{*hour} + minutes{*minute} + seconds{*second};
}

}  // namespace

boot_clock::time_point boot_clock::now() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return time_point{seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
}

result<milliseconds> parse_duration(std::string_view text) {
    std::size_t length = 0;
    std::int64_t value = 0;
    for (; length < text.size() && digit(text[length]); ++length) {
        if (value > std::numeric_limits<std::int64_t>::max() / 10 - 1) return bad_duration(text);
        value = value * 10 + (text[length] - '0');
    }
    if (length == 0) return bad_duration(text);
    for (const auto& u : units) {
        if (text.substr(length) != u.name) continue;
        if (value > std::numeric_limits<std::int64_t>::max() / u.ms) return bad_duration(text);
        return milliseconds{value * u.ms};
    }
    return bad_duration(text);
}

std::string format_duration(milliseconds value) {
    const std::int64_t ms = value.count();
    if (ms == 0) return "0s";
    for (const auto& u : units) {
        if (ms % u.ms == 0) return std::to_string(ms / u.ms).append(u.name);
    }
    return {};
}

std::string describe_duration(milliseconds value) {
    std::int64_t ms = value.count();
    if (ms < 0) {
        if (ms == std::numeric_limits<std::int64_t>::min()) ++ms;
        return "-" + describe_duration(milliseconds{-ms});
    }
    if (ms < 1000) return ms == 0 ? "0s" : std::to_string(ms) + "ms";
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
        if (ms < units[i].ms) continue;
        std::string out = std::to_string(ms / units[i].ms).append(units[i].name);
        const std::int64_t rest = ms % units[i].ms / units[i + 1].ms;
        // Seconds stand alone: nobody wants `12s 37ms` in a table.
        if (rest > 0 && units[i].ms > 1000) out.append(" ").append(std::to_string(rest)).append(units[i + 1].name);
        return out;
    }
    return {};
}

std::string format_rfc3339(wall_time t) {
    const auto ms = std::chrono::floor<milliseconds>(t);
    const auto day = std::chrono::floor<days>(ms);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss clock{ms - day};
    std::string out;
    out.reserve(24);
    append_padded(out, static_cast<int>(date.year()), 4);
    append_padded(out += '-', static_cast<unsigned>(date.month()), 2);
    append_padded(out += '-', static_cast<unsigned>(date.day()), 2);
    append_padded(out += 'T', clock.hours().count(), 2);
    append_padded(out += ':', clock.minutes().count(), 2);
    append_padded(out += ':', clock.seconds().count(), 2);
    append_padded(out += '.', clock.subseconds().count(), 3);
    return out += 'Z';
}

result<wall_time> parse_rfc3339(std::string_view text) {
    const auto day = take_date(text);
    if (!day || !take_char(text, "Tt ")) return bad_timestamp();
    const auto clock = take_clock(text);
    if (!clock) return bad_timestamp();
    const auto fraction = take_fraction(text);
    if (!fraction) return bad_timestamp();
    const auto east = take_offset(text);
    if (!east) return bad_timestamp();
    return wall_time{*day + *clock + *fraction - *east};
}

}  // namespace outboxd::base
