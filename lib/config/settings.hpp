// The settings object of an endpoint as JSON: from the file into the database, and masked for people. Floor 2.
#pragma once

#include <string>
#include <string_view>

#include "config/document.hpp"
#include "config/reader.hpp"

namespace outboxd::config {

// The keys of `section` (an entry of `endpoints`, or a settings object) that are settings, as a JSON object for outbox.endpoint.settings. References and relative paths are resolved
// by `read`, which must have read the section.
[[nodiscard]] std::string settings_json(const node& section, const reader& read);

// The same object for eyes: values of headers and the credentials of a proxy replaced by `***`. For everything that shows or logs settings. Not JSON: `{}`.
[[nodiscard]] std::string redact_settings(std::string_view json_object);

// The defaults as built in.
[[nodiscard]] endpoint_settings built_in_settings();

// What follows from which keys were written: a timeout shortened alone takes connect_timeout along.
void complete_timeouts(endpoint_settings& settings, bool timeout_written, bool connect_timeout_written);
// Conflicts within one endpoint's settings: the key and the sentence. `max_payload` against relay.max_in_flight_bytes is not among them.
struct conflict {
    std::string key;
    std::string text;
};
[[nodiscard]] std::vector<conflict> conflicts_within(const endpoint_settings& settings);

}  // namespace outboxd::config
