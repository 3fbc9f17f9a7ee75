// Where the configuration comes from: file, flag, environment, in the order of contract section 3. Floor 5.
#pragma once

#include <optional>
#include <string>

#include "config/load.hpp"

namespace outboxd::daemon {

inline constexpr const char* default_config_path = "/etc/outboxd/outboxd.yaml";

// The file to read: what --config names, else the default one; "" (no file, all defaults) when the default one does not exist and the database is named
// elsewhere.
[[nodiscard]] std::string choose_config_path(const std::optional<std::string>& config_flag, const std::optional<std::string>& database_flag);

// Reads the file ("" : none) and puts the database of the flag, else of OUTBOXD_DATABASE_URL, over the file's. A variable that looks like a misspelt
// OUTBOXD_DATABASE_URL is a problem too.
[[nodiscard]] config::load_result load_settings(const std::string& config_path, const std::optional<std::string>& database_flag, config::secrets which = config::secrets::needed);

}  // namespace outboxd::daemon
