// The SQL behind the operator's commands and /api/v1, named. Floor 4 (postgres). Reads take no locks; writes go through functions of the schema, or touch
// single rows of endpoint and endpoint_secret.
#pragma once

#include <string>
#include <string_view>

namespace outboxd::postgres {

// Texts with the schema's name put in. `schema` has passed the configuration's check for identifiers.
// Times travel as microseconds since 1970 in bigint: no dependence on DateStyle or time zone; infinite ones as NULL.
struct operator_statements {
    explicit operator_statements(std::string_view schema);

    std::string totals, rates, relays, circuits, lanes, blocked_keys;
    std::string find_event, why;
    std::string list_events, show_event, body;
    std::string list_deliveries, attempts_of_event, event_of_live_delivery, event_of_finished_delivery;
    std::string retry, cancel, unblock;
    std::string replay_scan, replay_failed, replay, copy_event;
    std::string list_endpoints, show_endpoint, secrets, endpoint_settings, add_endpoint, change_endpoint, set_enabled, set_paused, remove_endpoint,
        rotate_secret, endpoint_for_test, secrets_for_test;
    std::string purge, purge_position;
};

}  // namespace outboxd::postgres
