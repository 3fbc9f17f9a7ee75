// Typed readers of what the user typed: one place that says what form a flag's value has.
#include <charconv>
#include <cmath>

#include "commands/command.hpp"

namespace outboxd::daemon {

std::optional<std::string> arguments::get(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end() || found->second.empty()) return std::nullopt;
    return found->second.back();
}

std::vector<std::string> arguments::all(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::int64_t arguments::number(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) const {
    const auto text = get(name);
    if (!text) return otherwise;
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (fault != std::errc{} || end != text->data() + text->size() || value < least || value > most) {
        throw usage_error(std::string{name} + " wants a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", not '" + *text + "'");
    }
    return value;
}

base::milliseconds arguments::duration(std::string_view name, base::milliseconds otherwise) const {
    const auto text = get(name);
    if (!text) return otherwise;
    const auto value = base::parse_duration(*text);
    if (!value) throw usage_error(std::string{name} + ": " + value.error().text);
    return *value;
}

std::optional<base::wall_time> arguments::moment(std::string_view name) const {
    const auto text = get(name);
    if (!text) return std::nullopt;
    if (const auto ago = base::parse_duration(*text)) {
        return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()) - *ago;
    }
    const bool plain_date = text->size() == 10 && text->find('T') == std::string::npos;
    const auto value = base::parse_rfc3339(plain_date ? *text + "T00:00:00Z" : *text);
    if (!value)
        throw usage_error(std::string{name} +
                          " wants a time such as 2026-11-30T08:00:00Z, a date such as 2026-11-30 (UTC), or a duration such as 2h (that long ago), not '" +
                          *text + "'");
    return *value;
}

std::optional<double> arguments::rate(std::string_view name) const {
    const auto text = get(name);
    if (!text) return std::nullopt;
    double value = 0;
    const auto slash = text->find('/');
    const std::string_view digits = std::string_view{*text}.substr(0, slash);
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const std::string unit = slash == std::string::npos ? "" : text->substr(slash + 1);
    const double seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
    if (fault != std::errc{} || end != digits.data() + digits.size() || seconds == 0 || !std::isfinite(value) || value <= 0 || value > 1e6) {
        throw usage_error(std::string{name} + " wants a rate such as 100/s, 30/m or 5/h, not '" + *text + "'");
    }
    return value / seconds;
}

int exit_code_for(const base::error& e) noexcept {
    // No session was to be had: wrong password (28xxx), no such database (3D000), starting up or stopping (57Pxx), too many connections (53300). For a supervisor
    // that is an unreachable database. Missing rights on a table (42501) are not.
    const std::string_view state = e.sqlstate;
    const bool no_session = state.starts_with("28") || state.starts_with("3D") || state.starts_with("57P") || state == "53300";
    if (e.code == base::errc::database_unreachable || no_session) return exit_unreachable;
    if (e.code == base::errc::database_denied && state.empty()) return exit_unreachable;
    return e.code == base::errc::bad_config ? exit_bad_config : exit_failed;
}

}  // namespace outboxd::daemon
