// Variables that look like ours. Floor 2.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "config/load.hpp"

namespace outboxd::config {

// Names of the process's own environment that begin with OUTBOXD_.
[[nodiscard]] std::vector<std::string> process_variable_names();
// A warning for each name that nothing reads: neither outboxd nor a reference in the file.
[[nodiscard]] std::vector<problem> unknown_variables(const std::vector<std::string>& names, const std::set<std::string>& used_by_file);

}  // namespace outboxd::config
