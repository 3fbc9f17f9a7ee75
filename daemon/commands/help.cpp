#include "commands/help.hpp"

#include <algorithm>

namespace outboxd::daemon {
namespace {

std::string usage_line(const command& c) {
    std::string line = "outboxd " + c.name;
    for (const auto& o : c.operands) {
        const std::string name = o.name + (o.max < 0 ? "..." : "");
        line += o.min == 0 ? " [" + name + "]" : " " + name;
    }
    return line + " [flags]";
}

std::string columns(const std::vector<std::pair<std::string, std::string>>& rows) {
    std::size_t width = 0;
    for (const auto& [left, right] : rows) width = std::max(width, left.size());
    std::string text;
    for (const auto& [left, right] : rows) text += "  " + left + std::string(width - left.size() + 2, ' ') + right + "\n";
    return text;
}

std::string list(const std::string& group) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& c : all_commands()) {
        if (group.empty() || c.name.starts_with(group + " ")) rows.emplace_back(c.name, c.summary);
    }
    return columns(rows);
}

}  // namespace

std::string overview() {
    return "outboxd delivers events from a PostgreSQL outbox table to HTTPS endpoints.\n\n"
           "Usage: outboxd COMMAND [operands] [flags]\n\nCommands:\n" +
           list("") +
           "\nFlags of most commands: --config FILE, --database URL, --json. 'outboxd COMMAND --help' shows all, with examples.\n"
           "Exit codes: 0 done, 1 failed, 2 usage, 3 something remains (drain), 69 database unreachable, 78 bad configuration.\n";
}

std::string group_overview(const std::string& group) {
    return "Usage: outboxd " + group + " COMMAND [operands] [flags]\n\nCommands:\n" + list(group);
}

std::string help_of(const command& c, const std::vector<flag>& flags) {
    std::string text = c.summary + "\n\nUsage: " + usage_line(c) + "\n";
    if (!c.about.empty()) text += "\n" + c.about + "\n";
    if (!c.operands.empty()) {
        std::vector<std::pair<std::string, std::string>> rows;
        for (const auto& o : c.operands) rows.emplace_back(o.name, o.help);
        text += "\nOperands:\n" + columns(rows);
    }
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& f : flags) rows.emplace_back(f.value.empty() ? f.name : f.name + " " + f.value, f.help + (f.repeatable ? " (may be repeated)" : ""));
    rows.emplace_back("--help", "this text");
    text += "\nFlags:\n" + columns(rows);
    if (!c.examples.empty()) {
        text += "\nExamples:\n";
        for (const auto& e : c.examples) text += "  " + e + "\n";
    }
    return text;
}

}  // namespace outboxd::daemon
