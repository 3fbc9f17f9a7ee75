// Reading the YAML file. Floor 2; yaml-cpp stays in load.cpp (and its sibling .cpp files).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "config/config.hpp"

namespace outboxd::config {

struct problem {
    std::string file;
    int line{0};          // 1-based; 0: no place in the file
    std::string key;      // dotted path: endpoints[2].retry.jitter
    std::string text;     // what is wrong and what is accepted; never a secret's value
    bool warning{false};  // does not stop anything
    [[nodiscard]] std::string to_string() const;  // file:line: key: text
};

struct load_result {
    std::optional<config> value;    // absent when there is any problem that is no warning
    std::vector<problem> problems;  // all of them, in file order
};

// Where ${ENV} and {env: NAME} values come from; tests inject their own.
using environment = std::function<std::optional<std::string>(const std::string&)>;
[[nodiscard]] environment process_environment();

// Commands that only work with the database do not want the secrets of endpoints: those of the service's environment are not at hand in an operator's shell.
enum class secrets { needed, not_needed };

// Reads, checks and completes the file: every problem at once. Files over 4 MiB, not regular (FIFO, directory), not UTF-8 or nested deeper than 64 are refused in well under a second. An empty file is valid.
[[nodiscard]] load_result load_file(const std::string& path, const environment& env, secrets which = secrets::needed);
[[nodiscard]] load_result load_text(std::string_view yaml, const std::string& file_name, const environment& env, secrets which = secrets::needed);

// The settings jsonb of an outbox.endpoint row over the defaults, by the same key table. Error: invalid_input naming the key.
[[nodiscard]] base::result<endpoint_settings> apply_settings(const endpoint_settings& defaults, std::string_view json_object);
// One `key=value` of `endpoint set` as a member of the settings object: value is YAML flow text. Returns the JSON text of the merged object.
[[nodiscard]] base::result<std::string> merge_setting(std::string_view json_object, std::string_view key, std::string_view yaml_value);

}  // namespace outboxd::config
