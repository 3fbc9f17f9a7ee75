#include "config/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "config/near_match.hpp"

namespace outboxd::config {
namespace {

constexpr std::string_view prefix = "OUTBOXD_";

const std::vector<std::string>& known_names() {
    static const std::vector<std::string> names{"OUTBOXD_DATABASE_URL", "OUTBOXD_KILL_AT"};
    return names;
}

}  // namespace

std::vector<std::string> process_variable_names() {
    std::vector<std::string> names;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
    }
    return names;
}

std::vector<problem> unknown_variables(const std::vector<std::string>& names, const std::set<std::string>& used_by_file) {
    std::vector<problem> problems;
    std::vector<std::string> candidates = known_names();
    candidates.insert(candidates.end(), used_by_file.begin(), used_by_file.end());
    for (const std::string& name : names) {
        if (std::find(candidates.begin(), candidates.end(), name) != candidates.end()) continue;
        problems.push_back({"environment", 0, name, "nothing reads this variable" + suggestion(near_match(name, candidates)), true});
    }
    return problems;
}

}  // namespace outboxd::config
