// Help texts from the command table. Floor 5.
#pragma once

#include <string>
#include <vector>

#include "commands/command.hpp"

namespace outboxd::daemon {

[[nodiscard]] std::string overview();
[[nodiscard]] std::string group_overview(const std::string& group);  // `outboxd endpoint --help`
[[nodiscard]] std::string help_of(const command& c, const std::vector<flag>& flags);

}  // namespace outboxd::daemon
