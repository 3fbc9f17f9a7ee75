// Role: loading a text with a made-up environment, and asking what was said about it.
// Promise: touches no file and no real environment.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "support/catch.hpp"

namespace outboxd::config_test {

inline config::environment environment_of(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
        const auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional<std::string>{found->second};
    };
}

inline config::load_result load(const std::string& yaml, std::map<std::string, std::string> variables = {}, config::secrets which = config::secrets::needed) {
    return config::load_text(yaml, "test.yaml", environment_of(std::move(variables)), which);
}

inline std::string all_text(const config::load_result& result) {
    std::string out;
    for (const auto& p : result.problems) out += p.to_string() + "\n";
    return out;
}

inline std::size_t errors(const config::load_result& result) {
    return static_cast<std::size_t>(std::count_if(result.problems.begin(), result.problems.end(), [](const auto& p) { return !p.warning; }));
}

// A signing secret of 24 bytes.
inline const std::string good_secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

inline std::string one_endpoint(const std::string& more) {
    return "endpoints:\n  - name: billing\n    url: https://billing.example.com/hooks\n    signing: none\n" + (more.empty() ? std::string{} : "    " + more + "\n");
}

}  // namespace outboxd::config_test
