// The SQL that keeps outbox.endpoint in step with the configuration file, each with the reason for its locking. Floor 4 (postgres). They run in one transaction, endpoints in order of their names, so that two
// relays that start together wait for each other and never deadlock.
#pragma once

#include <string>
#include <string_view>

namespace outboxd::postgres {

struct sync_statements {
    explicit sync_statements(std::string_view schema);

    std::string foreign_names;   // plain read: who managed an endpoint before is only for the report
    std::string write_endpoint;  // locks one row, and touches it only when something differs
    std::string drop_secrets, add_secrets;  // secrets of one endpoint, replaced as a whole
    std::string disable_absent;  // locks the rows of endpoints that left the file
    std::string write_setting;   // locks one row of setting when it differs
};

}  // namespace outboxd::postgres
