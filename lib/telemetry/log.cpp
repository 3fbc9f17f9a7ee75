#include "telemetry/log.hpp"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "base/encoding.hpp"
#include "base/time.hpp"

namespace outboxd::telemetry {
namespace {

constexpr std::size_t max_value_bytes = 2048;    // of one field; an excerpt is 1 KiB
constexpr std::size_t max_limited_keys = 1024;   // remembered by log_limited
constexpr std::size_t pipe_chunk = 4096;         // PIPE_BUF: a writable pipe takes this much without blocking
constexpr int first_stall_ms = 50;

// Writes lines to stderr. A reader that stands still (a full pipe, a stopped terminal) costs 50 ms once; until it moves again lines are dropped and counted, so that the
// engine's loop, and with it the lease, goes on.
class stderr_sink final : public spdlog::sinks::base_sink<std::mutex> {
protected:
    void sink_it_(const spdlog::details::log_msg& line) override {
        if (lost_ > 0 && writable(0)) report_lost();
        if (!write_all(std::string_view{line.payload.data(), line.payload.size()})) ++lost_;
    }
    void flush_() override {}

private:
    [[nodiscard]] bool writable(int timeout_ms) noexcept {
        pollfd p{STDERR_FILENO, POLLOUT, 0};
        int n = ::poll(&p, 1, timeout_ms);
        while (n < 0 && errno == EINTR) n = ::poll(&p, 1, 0);
        return n > 0;  // also on POLLERR: write then says so and the line is lost
    }

    [[nodiscard]] bool write_all(std::string_view text) noexcept {
        bool whole = true;
        if (torn_) whole = write_chunks("\n");
        if (!whole) return false;
        torn_ = false;
        return write_chunks(text);
    }

    [[nodiscard]] bool write_chunks(std::string_view text) noexcept {
        bool begun = false;
        while (!text.empty()) {
            if (!writable(stalled_ ? 0 : first_stall_ms)) {
                stalled_ = true;
                torn_ = torn_ || begun;
                return false;
            }
            const ssize_t n = ::write(STDERR_FILENO, text.data(), std::min(text.size(), pipe_chunk));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) {
                torn_ = torn_ || begun;
                return false;
            }
            stalled_ = false;
            begun = true;
            text.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
    }

    void report_lost() noexcept;

    std::uint64_t lost_{0};
    bool stalled_{false};
    bool torn_{false};  // the last line ended in its middle
};

struct limited {
    base::boot_time passed{};
    std::int64_t suppressed{0};
};

struct log_state {
    std::shared_ptr<stderr_sink> sink = std::make_shared<stderr_sink>();
    std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("outboxd", sink);
    bool json{true};
    std::mutex mutex;
    std::map<std::string, limited, std::less<>> limits;
    log_state() { logger->set_level(spdlog::level::info); }
};

// Never destroyed: lines may still be logged while the process's other statics end.
log_state& state() {
    static log_state* const one = new log_state;
    return *one;
}

spdlog::level::level_enum to_spdlog(level l) noexcept {
    switch (l) {
        case level::trace: return spdlog::level::trace;
        case level::debug: return spdlog::level::debug;
        case level::info: return spdlog::level::info;
        case level::warn: return spdlog::level::warn;
        case level::error: return spdlog::level::err;
    }
    return spdlog::level::info;
}

std::string_view name_of(level l) noexcept {
    switch (l) {
        case level::trace: return "trace";
        case level::debug: return "debug";
        case level::info: return "info";
        case level::warn: return "warn";
        case level::error: return "error";
    }
    return "info";
}

bool plain(std::string_view text) noexcept {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

void append_json_text(std::string& out, std::string_view text) {
    out += '"';
    if (text.size() <= max_value_bytes && plain(text)) {
        out += text;
    } else {
        out += base::json_escape(base::storable(text, max_value_bytes));
    }
    out += '"';
}

// A value of a text line: bare where it is one plain word, else quoted as in JSON.
void append_word(std::string& out, std::string_view text) {
    const bool bare = !text.empty() && text.size() <= max_value_bytes && plain(text) && text.find_first_of(" =") == std::string_view::npos;
    if (bare) {
        out += text;
    } else {
        append_json_text(out, text);
    }
}

template <class T>
void append_number(std::string& out, T value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    out.append(buffer.data(), end);
}

void append_value(std::string& out, const field& f, bool json) {
    if (const auto* text = std::get_if<std::string_view>(&f.value)) {
        json ? append_json_text(out, *text) : append_word(out, *text);
    } else if (const auto* whole = std::get_if<std::int64_t>(&f.value)) {
        append_number(out, *whole);
    } else if (const auto* real = std::get_if<double>(&f.value)) {
        std::isfinite(*real) ? append_number(out, *real) : static_cast<void>(out += "null");  // JSON has no infinity
    } else {
        out += std::get<bool>(f.value) ? "true" : "false";
    }
}

std::string now_text() { return base::format_rfc3339(std::chrono::time_point_cast<base::microseconds>(std::chrono::system_clock::now())); }

void append_json_field(std::string& out, const field& f) {
    out += ',';
    append_json_text(out, f.name);
    out += ':';
    append_value(out, f, true);
}

void append_text_field(std::string& out, const field& f) {
    out += ' ';
    append_word(out, f.name);
    out += '=';
    append_value(out, f, false);
}

std::string render(level l, std::string_view event, std::string_view text, std::initializer_list<field> fields, std::int64_t suppressed, bool json) {
    std::string out;
    out.reserve(512);
    const auto append = json ? append_json_field : append_text_field;
    if (json) {
        out += "{\"time\":\"" + now_text() + "\",\"level\":\"";
        out += name_of(l);
        out += '"';
    } else {
        out += now_text() + ' ';
        out += name_of(l);
    }
    append(out, {"event", event});
    if (!text.empty()) append(out, {"text", text});
    for (const field& f : fields) append(out, f);
    if (suppressed > 0) append(out, {"suppressed", suppressed});
    if (json) out += '}';
    out += '\n';
    return out;
}

void stderr_sink::report_lost() noexcept {
    try {
        const std::string line = render(level::warn, "log_lines_lost", "stderr was not read; log lines were dropped", {{"lost", static_cast<std::int64_t>(lost_)}}, 0, state().json);
        if (write_all(line)) lost_ = 0;
    } catch (const std::exception&) {
        // No memory for a line about lost lines: the count stays and is told later.
        return;
    }
}

void write(level l, std::string_view event, std::string_view text, std::initializer_list<field> fields, std::int64_t suppressed) {
    log_state& s = state();
    s.logger->log(to_spdlog(l), spdlog::string_view_t{render(l, event, text, fields, suppressed, s.json)});
}

// Says whether a line may pass now, and how many were held back before it.
bool may_pass(std::string_view event, std::string_view key, std::int64_t& suppressed) {
    using namespace std::chrono_literals;
    log_state& s = state();
    const std::lock_guard lock(s.mutex);
    const base::boot_time now = base::boot_clock::now();
    std::string name{event};
    name += '\0';
    name += key;
    auto found = s.limits.find(name);
    if (found == s.limits.end() && s.limits.size() >= max_limited_keys) {
        std::erase_if(s.limits, [now](const auto& entry) { return now - entry.second.passed >= 1s; });
        // Too many keys within one second: they share the event's own limit.
        if (s.limits.size() >= max_limited_keys) name.resize(event.size());
        found = s.limits.find(name);
    }
    if (found == s.limits.end()) {
        s.limits.emplace(std::move(name), limited{now, 0});
        return true;
    }
    if (now - found->second.passed < 1s) {
        ++found->second.suppressed;
        return false;
    }
    suppressed = std::exchange(found->second.suppressed, 0);
    found->second.passed = now;
    return true;
}

}  // namespace

void init_log(std::string_view level_name, std::string_view format) {
    log_state& s = state();
    s.json = format != "text";
    if (level_name == "off") s.logger->set_level(spdlog::level::off);
    for (const level l : {level::trace, level::debug, level::info, level::warn, level::error}) {
        if (name_of(l) == level_name) s.logger->set_level(to_spdlog(l));
    }
}

bool enabled(level l) noexcept { return state().logger->should_log(to_spdlog(l)); }

void log(level l, std::string_view event, std::string_view text, std::initializer_list<field> fields) {
    if (enabled(l)) write(l, event, text, fields, 0);
}

void log_limited(level l, std::string_view event, std::string_view key, std::string_view text, std::initializer_list<field> fields) {
    std::int64_t suppressed = 0;
    if (enabled(l) && may_pass(event, key, suppressed)) write(l, event, text, fields, suppressed);
}

void flush_log() { state().logger->flush(); }

}  // namespace outboxd::telemetry
