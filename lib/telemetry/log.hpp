// One line per thing that happened. Floor 2; spdlog stays in log.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace outboxd::telemetry {

enum class level : std::uint8_t { trace, debug, info, warn, error };

// A field of a log line: numbers stay numbers in JSON.
struct field {
    std::string_view name;
    std::variant<std::string_view, std::int64_t, double, bool> value;
};

// format: `json` (one object a line) or `text` (logfmt-like). Writes to stderr, never blocks on more than the write. May be called again (SIGHUP). Level `off`, which no configuration may name, is for tests that break things on purpose.
void init_log(std::string_view level_name, std::string_view format);
[[nodiscard]] bool enabled(level l) noexcept;
// {"time":"...","level":"info","event":"<event>","text":"...",fields...}. Values are escaped; invalid UTF-8 is replaced.
void log(level l, std::string_view event, std::string_view text, std::initializer_list<field> fields = {});
// At most one line a second for one `event` and `key`; the next line that passes carries suppressed=N.
void log_limited(level l, std::string_view event, std::string_view key, std::string_view text, std::initializer_list<field> fields = {});
void flush_log();

}  // namespace outboxd::telemetry
