// Time as values: the server's wall clock, the local clock that also counts suspend, durations as text. Floor 0, pure but for boot_clock::now().
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace outboxd::base {

using std::chrono::milliseconds;
using std::chrono::microseconds;
using std::chrono::seconds;

// A moment of the database server's clock (or of any wall clock), microseconds since 1970-01-01T00:00:00Z.
using wall_time = std::chrono::sys_time<std::chrono::microseconds>;

// CLOCK_BOOTTIME: monotonic and counting while the machine sleeps, so that a lease never looks longer than it is. clock_gettime(2).
struct boot_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<boot_clock>;
    static constexpr bool is_steady = true;
    [[nodiscard]] static time_point now() noexcept;
};
using boot_time = boot_clock::time_point;

// `250ms`, `5s`, `10m`, `2h`, `7d`: one decimal whole number and one unit, no sign, no space. Error: invalid_input naming the accepted form.
[[nodiscard]] result<milliseconds> parse_duration(std::string_view text);
// The shortest exact form that parse_duration reads again: 1500ms, 5s, 2h, 7d; 0s for zero.
[[nodiscard]] std::string format_duration(milliseconds value);
// Two units at most, for people: `2h 5m`, `3d 4h`, `850ms`, `12s`.
[[nodiscard]] std::string describe_duration(milliseconds value);

// RFC 3339 with microseconds cut to milliseconds, UTC: 2026-11-30T19:03:47.120Z
[[nodiscard]] std::string format_rfc3339(wall_time t);
// RFC 3339 date-time, any offset. Error: invalid_input.
[[nodiscard]] result<wall_time> parse_rfc3339(std::string_view text);

}  // namespace outboxd::base
