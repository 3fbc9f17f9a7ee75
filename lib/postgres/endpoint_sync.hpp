// Keeps outbox.endpoint in step with the endpoints of the configuration file. Floor 4 (postgres): one transaction, writes only what differs, so that relays read endpoints anew only after a real change.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/config.hpp"
#include "postgres/connection.hpp"

namespace outboxd::postgres {

struct sync_report {
    std::vector<std::string> added;
    std::vector<std::string> changed;
    std::vector<std::string> taken_over;  // existed with another managed_by
    std::vector<std::string> removed;     // left the file: disabled, their deliveries wait
};

constexpr std::string_view removed_reason = "removed from the configuration file";
constexpr std::string_view disabled_reason = "disabled in the configuration file";
constexpr std::string_view paused_reason = "paused in the configuration file";

// On a connection of its own. Endpoints of the file are `managed_by = 'config'`; what the file disabled or paused it enables or resumes again, what an operator or a 410 disabled stays so. Also the settings that
// the fan-out trigger reads. Errors as connection::query; database_schema when not migrated.
asio::awaitable<base::result<sync_report>> sync_endpoints(asio::any_io_executor executor, connect_options options, std::string schema, std::shared_ptr<const config::config> configuration);

}  // namespace outboxd::postgres
