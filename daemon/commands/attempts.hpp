// What several commands show of deliveries: the attempts table and the words for --status. Floor 5.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/command.hpp"
#include "ports/operator_store.hpp"

namespace outboxd::daemon {

void print_attempts(const std::vector<ports::attempt_view>& attempts);
// The value of --status, checked against the words of outbox.status.
[[nodiscard]] std::optional<std::string> status_word(const arguments& args);
[[nodiscard]] std::string status_words();  // for help texts

}  // namespace outboxd::daemon
