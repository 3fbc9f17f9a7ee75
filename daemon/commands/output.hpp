// What commands print: tables, progress, times. Data on stdout, everything else on stderr; colours and bars only on a terminal. Floor 5.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"

namespace outboxd::daemon {

[[nodiscard]] bool stdout_is_terminal();
[[nodiscard]] bool stderr_is_terminal();

enum class colour { none, bold, red, yellow, green, grey };
// The text in that colour when stdout is a terminal and NO_COLOR is not set; else the text.
[[nodiscard]] std::string painted(std::string_view text, colour c);

// A word typed by the user or read from a row, safe to show on a terminal: control characters and broken UTF-8 escaped, at most 200 bytes.
[[nodiscard]] std::string base_printable(std::string_view text);
[[nodiscard]] std::string joined(const std::vector<std::string>& words, std::string_view between);
[[nodiscard]] std::string moment(const std::optional<base::wall_time>& t);  // RFC 3339, or `-`
[[nodiscard]] std::string count_text(std::int64_t n, bool at_least);        // 1000+ where the count was cut

// Rows under a heading, columns as wide as their longest cell, two spaces between, no trailing spaces. Cells pass base_printable.
class table {
public:
    explicit table(std::vector<std::string> heading) : heading_(std::move(heading)) {}
    void row(std::vector<std::string> cells);
    void print() const;
    [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }

private:
    std::vector<std::string> heading_;
    std::vector<std::vector<std::string>> rows_;
};

// `name: value` lines, values aligned.
class sheet {
public:
    void line(std::string name, std::string_view value) { lines_.emplace_back(std::move(name), base_printable(value)); }
    void print() const;

private:
    std::vector<std::pair<std::string, std::string>> lines_;
};

// Prints one JSON document and a line end on stdout.
void print_json(std::string_view document);

// Progress of a long command on stderr: a bar on a terminal, elsewhere a plain line at most every five seconds.
class progress {
public:
    progress(std::string what, std::int64_t total);  // total 0: unknown
    ~progress();
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    void at(std::int64_t done, std::string_view note = {});

private:
    std::string what_;
    std::int64_t total_;
    bool drawn_{false};
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace outboxd::daemon
