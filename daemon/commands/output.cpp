#include "commands/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/encoding.hpp"

namespace outboxd::daemon {
namespace {

// Code points, near enough to columns for names, ids and times.
std::size_t width(std::string_view utf8) {
    return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

const char* code(colour c) {
    switch (c) {
        case colour::bold: return "\033[1m";
        case colour::red: return "\033[31m";
        case colour::yellow: return "\033[33m";
        case colour::green: return "\033[32m";
        case colour::grey: return "\033[90m";
        case colour::none: break;
    }
    return "";
}

}  // namespace

bool stdout_is_terminal() {
    return ::isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() {
    return ::isatty(STDERR_FILENO) == 1;
}

std::string painted(std::string_view text, colour c) {
    static const bool colours = stdout_is_terminal() && std::getenv("NO_COLOR") == nullptr;  // no-color.org
    if (!colours || c == colour::none) return std::string{text};
    return code(c) + std::string{text} + "\033[0m";
}

std::string base_printable(std::string_view text) {
    return base::printable(text, 200);
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string text;
    for (const auto& w : words) {
        if (!text.empty()) text += between;
        text += w;
    }
    return text;
}

std::string moment(const std::optional<base::wall_time>& t) {
    return t ? base::format_rfc3339(*t) : "-";
}

std::string count_text(std::int64_t n, bool at_least) {
    return std::to_string(n) + (at_least ? "+" : "");
}

void table::row(std::vector<std::string> cells) {
    for (auto& c : cells) c = c.empty() ? "-" : base_printable(c);
    cells.resize(heading_.size());
    rows_.push_back(std::move(cells));
}

void table::print() const {
    std::vector<std::size_t> widths;
    for (const auto& h : heading_) widths.push_back(width(h));
    for (const auto& r : rows_) {
        for (std::size_t i = 0; i < r.size(); ++i) widths[i] = std::max(widths[i], width(r[i]));
    }
    const auto line = [&](const std::vector<std::string>& cells) {
        std::string text;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            text += cells[i];
            if (i + 1 < cells.size()) text += std::string(widths[i] - width(cells[i]) + 2, ' ');
        }
        return text;
    };
    std::cout << painted(line(heading_), colour::bold) << '\n';
    for (const auto& r : rows_) std::cout << line(r) << '\n';
}

void sheet::print() const {
    std::size_t widest = 0;
    for (const auto& [name, value] : lines_) widest = std::max(widest, name.size());
    for (const auto& [name, value] : lines_) std::cout << painted(name + ":", colour::bold) << std::string(widest - name.size() + 1, ' ') << value << '\n';
}

void print_json(std::string_view document) {
    std::cout << document << '\n';
}

progress::progress(std::string what, std::int64_t total) : what_(std::move(what)), total_(total), last_(std::chrono::steady_clock::now()) {}

progress::~progress() {
    if (drawn_) std::cerr << '\n';
}

void progress::at(std::int64_t done, std::string_view note) {
    const auto now = std::chrono::steady_clock::now();
    const bool terminal = stderr_is_terminal();
    const auto every = terminal ? std::chrono::milliseconds{100} : std::chrono::milliseconds{5000};
    const bool last = total_ > 0 && done >= total_;
    if (now - last_ < every && !(terminal && last)) return;
    last_ = now;
    std::string text = what_ + ": " + std::to_string(done) + (total_ > 0 ? " of " + std::to_string(total_) : "");
    if (!note.empty()) text += ", " + std::string{note};
    if (!terminal) {
        std::cerr << text << '\n';
        return;
    }
    if (total_ > 0) {
        const auto filled = static_cast<std::size_t>(std::clamp<std::int64_t>(done * 30 / total_, 0, 30));
        text = "[" + std::string(filled, '#') + std::string(30 - filled, '.') + "] " + text;
    }
    std::cerr << '\r' << text << "\033[K" << std::flush;
    drawn_ = true;
}

}  // namespace outboxd::daemon
