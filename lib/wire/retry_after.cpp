// The Retry-After field. Three date forms are legal in HTTP (RFC 9110 5.6.7) and all three are seen in the wild.
#include <algorithm>
#include <array>

#include "wire/response_policy.hpp"

namespace outboxd::wire {

namespace {

using namespace std::chrono_literals;
using base::milliseconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;

constexpr milliseconds longest = 24h;
constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> short_days{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> long_days{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};

bool digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

// Reads one part after the other from the front of a text; the first that does not fit makes all later reads fail.
class cursor {
public:
    explicit cursor(std::string_view text) : text_(text) {}
    void literal(std::string_view expected) {
        ok_ = ok_ && text_.starts_with(expected);
        if (ok_) text_.remove_prefix(expected.size());
    }
    int number(std::size_t digits) {
        if (!ok_ || text_.size() < digits || !std::all_of(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(digits), digit)) return fail();
        int value = 0;
        for (std::size_t i = 0; i < digits; ++i) value = value * 10 + (text_[i] - '0');
        text_.remove_prefix(digits);
        return value;
    }
    // The day of the month of asctime: two digits, or a space and one.
    int padded_day() {
        if (!text_.starts_with(' ')) return number(2);
        text_.remove_prefix(1);
        return number(1);
    }
    template <std::size_t N>
    int name(const std::array<std::string_view, N>& names) {
        for (std::size_t i = 0; ok_ && i < N; ++i) {
            if (!text_.starts_with(names[i])) continue;
            text_.remove_prefix(names[i].size());
            return static_cast<int>(i);
        }
        return fail();
    }
    [[nodiscard]] bool finished() const { return ok_ && text_.empty(); }

private:
    int fail() {
        ok_ = false;
        return 0;
    }
    std::string_view text_;
    bool ok_{true};
};

struct clock_part {
    int hour, minute, second;
};

clock_part read_clock(cursor& c) {
    clock_part t{};
    t.hour = c.number(2);
    c.literal(":");
    t.minute = c.number(2);
    c.literal(":");
    t.second = c.number(2);
    return t;
}

std::optional<sys_seconds> moment(int year, int month, int day, clock_part t) {
    const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month + 1)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
    if (!date.ok() || t.hour > 23 || t.minute > 59 || t.second > 60) return std::nullopt;
    return std::chrono::sys_days{date} + std::chrono::hours{t.hour} + std::chrono::minutes{t.minute} + seconds{t.second};
}

// Sun, 06 Nov 1994 08:49:37 GMT
std::optional<sys_seconds> read_imf(std::string_view text) {
    cursor c{text};
    c.name(short_days);
    c.literal(", ");
    const int day = c.number(2);
    c.literal(" ");
    const int month = c.name(months);
    c.literal(" ");
    const int year = c.number(4);
    c.literal(" ");
    const auto t = read_clock(c);
    c.literal(" GMT");
    return c.finished() ? moment(year, month, day, t) : std::nullopt;
}

// Sunday, 06-Nov-94 08:49:37 GMT. A year that would lie more than 50 years ahead means the century before (RFC 9110 5.6.7).
std::optional<sys_seconds> read_rfc850(std::string_view text, base::wall_time now) {
    cursor c{text};
    c.name(long_days);
    c.literal(", ");
    const int day = c.number(2);
    c.literal("-");
    const int month = c.name(months);
    c.literal("-");
    const int short_year = c.number(2);
    c.literal(" ");
    const auto t = read_clock(c);
    c.literal(" GMT");
    if (!c.finished()) return std::nullopt;
    const int this_year = static_cast<int>(std::chrono::year_month_day{std::chrono::floor<std::chrono::days>(now)}.year());
    int year = this_year - this_year % 100 + short_year;
    if (year > this_year + 50) year -= 100;
    return moment(year, month, day, t);
}

// Sun Nov  6 08:49:37 1994
std::optional<sys_seconds> read_asctime(std::string_view text) {
    cursor c{text};
    c.name(short_days);
    c.literal(" ");
    const int month = c.name(months);
    c.literal(" ");
    const int day = c.padded_day();
    c.literal(" ");
    const auto t = read_clock(c);
    c.literal(" ");
    const int year = c.number(4);
    return c.finished() ? moment(year, month, day, t) : std::nullopt;
}

std::optional<milliseconds> read_seconds(std::string_view text) {
    if (text.empty() || !std::all_of(text.begin(), text.end(), digit)) return std::nullopt;
    std::int64_t value = 0;
    for (const char c : text) value = std::min<std::int64_t>(value * 10 + (c - '0'), 1'000'000'000);
    return std::min<milliseconds>(seconds{value}, longest);
}

}  // namespace

std::optional<milliseconds> parse_retry_after(std::string_view value, base::wall_time now) {
    const auto first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return std::nullopt;
    value = value.substr(first, value.find_last_not_of(" \t") - first + 1);
    if (const auto delay = read_seconds(value)) return delay;
    auto at = read_imf(value);
    if (!at) at = read_rfc850(value, now);
    if (!at) at = read_asctime(value);
    if (!at) return std::nullopt;
    // Rounded up, so that the next attempt is never a fraction early.
    return std::clamp<milliseconds>(std::chrono::ceil<milliseconds>(*at - now), 0ms, longest);
}

}  // namespace outboxd::wire
