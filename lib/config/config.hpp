// The configuration as plain structs: what the file says after parsing, defaults filled in. Floor 2.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/secret.hpp"
#include "base/time.hpp"
#include "lifecycle/circuit.hpp"
#include "lifecycle/retry_policy.hpp"
#include "wire/address_policy.hpp"
#include "wire/endpoint.hpp"
#include "wire/response_policy.hpp"

namespace outboxd::config {

struct rate_limit {
    double per_second{0};
    int burst{0};  // 0: half a second's worth, at least 1, so that a busy moment loses no tokens; it must be saved up first
    friend bool operator==(const rate_limit&, const rate_limit&) = default;
};

enum class on_failed : std::uint8_t { continue_, block };

struct tls_settings {
    std::string ca_file;       // PEM file or directory; empty: the system's store
    std::string client_cert;   // PEM chain
    std::string client_key;
    std::string min_version{"1.2"};
    std::string pinned_spki;   // base64 SHA-256 of the SubjectPublicKeyInfo; empty: none
    bool verify{true};         // false only per endpoint, loudly
    friend bool operator==(const tls_settings&, const tls_settings&) = default;
};

// The keys of `defaults`; an endpoint's own settings override single keys.
struct endpoint_settings {
    base::milliseconds timeout{15'000};
    base::milliseconds connect_timeout{5'000};
    int concurrency{64};
    std::optional<rate_limit> rate;           // key rate_limit
    wire::body_format format{wire::body_format::raw};
    wire::signing_scheme signing{wire::signing_scheme::standard_webhooks};
    wire::idempotency_key_format idempotency_key_format{wire::idempotency_key_format::bare};
    std::string method{"POST"};
    wire::header_list headers;
    lifecycle::retry_policy retry;            // preset standard-webhooks
    wire::response_rules responses{wire::default_response_rules()};
    lifecycle::circuit_settings circuit;
    config::on_failed on_failed{config::on_failed::continue_};
    std::int64_t max_payload{1 << 20};
    bool adaptive{true};                      // adaptive concurrency below `concurrency`
    std::optional<base::milliseconds> auto_disable_after{std::chrono::hours{120}};  // auto_disable: { after: 5d }; null: never
    std::optional<std::string> proxy;         // overrides egress.proxy; "" = none
    tls_settings tls;                         // per endpoint keys of `tls`
};

struct endpoint_config {
    std::string name;
    std::string url;
    std::optional<std::string> tenant_id;     // key `tenant`
    std::vector<std::string> events{"*"};
    std::vector<base::secret> secrets;        // newest first
    bool enabled{true};
    bool paused{false};
    std::string settings_json{"{}"};          // the overriding keys as they go into outbox.endpoint.settings
    endpoint_settings settings;               // effective: defaults + own
    std::string where;                        // file:line
};

struct database_config {
    base::secret url;                         // empty: from OUTBOXD_DATABASE_URL or PG* variables
    base::secret listen_url;
    std::string url_file;                     // set when the url came from {file: PATH}: read again on reconnect
    std::string schema{"outbox"};
};

struct relay_config {
    int max_in_flight{1024};
    std::int64_t max_in_flight_bytes{64LL << 20};
    int claim_batch{256};
    base::milliseconds poll_interval{1000};
    bool notify{true};
    base::milliseconds lease{60'000};
    base::milliseconds drain_timeout{30'000};
    int max_rescues{10};
    bool auto_migrate{false};
    bool operator_events{false};
};

struct routing_config {
    base::milliseconds unrouted_grace{std::chrono::hours{24}};
    int inline_limit{64};
};

struct egress_config {
    wire::egress_policy policy;               // allow, deny, allow_http
    base::secret proxy;                       // URL with credentials; empty: none
    std::vector<std::string> no_proxy;
    bool trust_config_endpoints{true};
};

struct admin_config {
    std::string listen{"127.0.0.1:9464"};     // empty (null): no listener
    base::secret token;
};

enum class log_attempts : std::uint8_t { none, failures, all };
struct log_config {
    std::string level{"info"};
    std::string format{"json"};               // json | text
    log_attempts attempts{log_attempts::failures};
};

struct retention_config {
    base::milliseconds published{std::chrono::hours{24 * 30}};
    base::milliseconds failed{std::chrono::hours{24 * 90}};
    base::milliseconds attempts{std::chrono::hours{24 * 30}};
};

struct config {
    database_config database;
    relay_config relay;
    routing_config routing;
    endpoint_settings defaults;
    std::vector<base::secret> default_secrets;  // defaults.secrets: direct URLs sign with these
    std::vector<endpoint_config> endpoints;
    egress_config egress;
    tls_settings tls;
    admin_config admin;
    log_config log;
    retention_config retention;
    std::string path;                           // the file it came from
};

}  // namespace outboxd::config
