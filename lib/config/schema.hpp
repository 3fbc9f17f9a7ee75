// The one table of keys: what may be written, in what form, with what default, and where it goes. Floor 2, pure.
// A new key is one row here and a field in config.hpp; the reference file and the readers follow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.hpp"

namespace outboxd::config {

enum class form : std::uint8_t {
    whole,
    size,
    duration,
    boolean,
    choice,
    text,
    identifier,    // database.schema
    name,          // of an endpoint
    url,           // of an endpoint
    listen,        // address:port
    path,          // a file, relative to the configuration file
    fingerprint,   // base64 SHA-256
    patterns,      // event types
    rules,         // egress rules
    hosts,         // egress.no_proxy
    statuses,
    rate,
    retry,
    headers,
    secret,
    database_url,
    proxy,
    secrets,       // signing secrets, newest first
};

// Where a value goes. Which one it is follows from the field; how it is written from the row's form.
using slot = std::variant<int*, std::int64_t*, bool*, std::string*, std::optional<std::string>*, base::milliseconds*, std::optional<base::milliseconds>*, base::secret*,
                          std::vector<base::secret>*, std::vector<std::string>*, std::vector<wire::egress_rule>*, std::optional<rate_limit>*, wire::header_list*,
                          lifecycle::retry_policy*, wire::status_set*, wire::body_format*, wire::signing_scheme*, wire::idempotency_key_format*, on_failed*, log_attempts*>;

// What is being filled in; only those that the scope has are set.
struct targets {
    config* file{nullptr};
    endpoint_settings* settings{nullptr};
    endpoint_config* endpoint{nullptr};
};

struct key {
    std::string_view path;           // as in the file: relay.lease, endpoints[].name
    form shape{form::text};
    std::string_view default_text;   // YAML, as in the reference file; empty: required
    std::int64_t low{0};             // bounds: count, bytes or milliseconds
    std::int64_t high{0};
    std::string_view choices;        // a|b|c, in the order of the field's enum
    bool nullable{false};
    bool reloadable{true};           // SIGHUP is enough
    std::string_view sentence;
    slot (*field)(const targets&){nullptr};
};

[[nodiscard]] std::span<const key> keys();

// The names that may be written in one kind of place.
enum class scope : std::uint8_t {
    file,      // the whole file but its endpoints
    endpoint,  // one entry of `endpoints`: its own keys and those of `defaults`
    settings,  // outbox.endpoint.settings: those keys of an endpoint that are settings
};
struct scoped_key {
    std::string name;  // dotted, without `defaults.` and `endpoints[].` where the scope is no file
    const key* row;
};
[[nodiscard]] const std::vector<scoped_key>& keys_of(scope s);
[[nodiscard]] const key* find_key(scope s, std::string_view name);
// The next words that may follow `prefix` (empty: the top level), in the table's order, each once.
[[nodiscard]] std::vector<std::string> words_below(scope s, std::string_view prefix);
// The dotted names whose last word is `word`, for a key at the wrong depth.
[[nodiscard]] std::vector<std::string> names_ending_in(std::string_view word);

// The accepted form of a key's value, for a sentence: `a whole number from 1 to 64`.
[[nodiscard]] std::string accepted_form(const key& row);

// Whether two fields of one row hold the same.
[[nodiscard]] bool same_value(const slot& a, const slot& b);

// The keys whose values differ and take effect at a restart only.
[[nodiscard]] std::vector<std::string> changed_restart_keys(const config& running, const config& wanted);

// config/outboxd.yaml: every key with its default and its sentence, in the table's order.
[[nodiscard]] std::string reference_yaml();

}  // namespace outboxd::config
