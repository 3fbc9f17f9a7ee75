// All SQL of the relay that is no function of the schema, each with the reason for its locking. Floor 4 (postgres). The only thing ever put into a text is the schema's name; values are parameters.
#pragma once

#include <string>
#include <string_view>

namespace outboxd::postgres {

// `"name"`, inner quotes doubled. The name has passed the configuration's check for identifiers; quoting keeps words such as `user` usable.
[[nodiscard]] std::string quote_identifier(std::string_view name);
// Every @schema@ replaced by the quoted name.
[[nodiscard]] std::string with_schema(std::string_view text, std::string_view schema);
// Same as wake_channel() of the schema.
[[nodiscard]] std::string wake_channel(std::string_view schema);
// Servers before 14 have no such setting.
inline constexpr std::string_view no_idle_limit = "SELECT set_config(s.name, '0', false) FROM pg_settings s WHERE s.name = 'idle_session_timeout' AND s.setting <> '0'";

// Relay statements. Unless a comment says otherwise a statement is one call of a function of the schema, which holds its locks for its own transaction only.
struct statements {
    explicit statements(std::string_view schema);

    std::string claim;           // rows FOR UPDATE SKIP LOCKED, then their events by primary key, which are never locked
    std::string bump_epoch, release_unknown;
    std::string settle;          // row locks of exactly the settled deliveries
    std::string register_relay, beat, set_wake, retire_relay;
    std::string endpoint_digest;
    std::string load_endpoints;  // plain read: a change that commits meanwhile changes the digest, which was read before
    std::string disable_endpoint;  // locks one endpoint row; touches it only while it is enabled, so that two relays write it once
    std::string endpoint_health;   // locks the endpoint rows whose health changed
    std::string load_circuits;   // plain read
    std::string circuit_trip, circuit_probe, circuit_result;
    std::string rescue, route, sweep, purge;
    std::string count;           // plain read of a bounded sample
    std::string dead_rows;       // plain read of statistics: the table with most, and who keeps vacuum away
    std::string vacuum_hints;    // plain read of settings: what keeps autovacuum from these tables
    std::string probe_wakeup;    // NOTIFY to ourselves

    std::string schema_version;  // plain read of the migration table
    std::string server_facts;    // encoding, read-only
    std::string shape;           // catalog: what of the expected tables, columns and functions is missing or of another kind
};

}  // namespace outboxd::postgres
