#include "config/schema.hpp"

#include <algorithm>
#include <array>

#include "base/time.hpp"
#include "config/scalars.hpp"

namespace outboxd::config {
namespace {

constexpr std::int64_t second = 1000;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;
constexpr std::int64_t kib = 1LL << 10;
constexpr std::int64_t gib = 1LL << 30;

constexpr bool needs_restart = false;
constexpr bool on_reload = true;

// Fields: file, settings and endpoint are what the row's place has.
#define OUTBOXD_FILE(member) [](const targets& t) -> slot { return &t.file->member; }
#define OUTBOXD_SETTING(member) [](const targets& t) -> slot { return &t.settings->member; }
#define OUTBOXD_ENDPOINT(member) [](const targets& t) -> slot { return &t.endpoint->member; }

// clang-format off
constexpr std::array table{
    // path, form, default, low, high, choices, nullable, reloadable, sentence, field
    key{"database.url", form::database_url, "null", 0, 0, "", true, needs_restart, "postgresql://user@host/database, or libpq's keyword form. null: OUTBOXD_DATABASE_URL or libpq's PG* variables. A secret form.", OUTBOXD_FILE(database.url)},
    key{"database.listen_url", form::database_url, "null", 0, 0, "", true, needs_restart, "Another address for LISTEN, where `url` leads to a transaction pooler.", OUTBOXD_FILE(database.listen_url)},
    key{"database.schema", form::identifier, "outbox", 0, 0, "", false, needs_restart, "Schema of the tables.", OUTBOXD_FILE(database.schema)},

    key{"relay.max_in_flight", form::whole, "1024", 1, 100'000, "", false, on_reload, "Requests on the wire, all lanes; an eighth is kept for lanes with none in flight.", OUTBOXD_FILE(relay.max_in_flight)},
    key{"relay.max_in_flight_bytes", form::size, "64MiB", 64 * kib, 64 * gib, "", false, on_reload, "Bodies held in memory.", OUTBOXD_FILE(relay.max_in_flight_bytes)},
    key{"relay.claim_batch", form::whole, "256", 1, 10'000, "", false, on_reload, "Deliveries taken by one claim.", OUTBOXD_FILE(relay.claim_batch)},
    key{"relay.poll_interval", form::duration, "1s", 10, hour, "", false, on_reload, "Claim this often when no wake-up comes.", OUTBOXD_FILE(relay.poll_interval)},
    key{"relay.notify", form::boolean, "true", 0, 0, "", false, needs_restart, "LISTEN for wake-ups. false: polling alone (applications that use two-phase commit, poolers).", OUTBOXD_FILE(relay.notify)},
    key{"relay.lease", form::duration, "60s", second, hour, "", false, on_reload, "How long claims outlive a relay that went silent; at least twice the longest endpoint timeout.", OUTBOXD_FILE(relay.lease)},
    key{"relay.drain_timeout", form::duration, "30s", 0, hour, "", false, on_reload, "After TERM: time for what is on the wire.", OUTBOXD_FILE(relay.drain_timeout)},
    key{"relay.max_rescues", form::whole, "10", 0, 1000, "", false, on_reload, "A delivery whose relays died more often than this ends `failed`.", OUTBOXD_FILE(relay.max_rescues)},
    key{"relay.auto_migrate", form::boolean, "false", 0, 0, "", false, needs_restart, "Migrate the schema at start instead of waiting for `outboxd migrate`.", OUTBOXD_FILE(relay.auto_migrate)},
    key{"relay.operator_events", form::boolean, "false", 0, 0, "", false, on_reload, "Insert outboxd.endpoint.disabled and outboxd.delivery.failed as events into the outbox itself.", OUTBOXD_FILE(relay.operator_events)},

    key{"routing.unrouted_grace", form::duration, "24h", 0, 3650 * day, "", false, on_reload, "How long an event without an endpoint is routed by itself once one appears.", OUTBOXD_FILE(routing.unrouted_grace)},
    key{"routing.inline_limit", form::whole, "64", 0, 10'000, "", false, on_reload, "An event for more endpoints than this is fanned out by the daemon, not in the application's INSERT.", OUTBOXD_FILE(routing.inline_limit)},

    key{"defaults.timeout", form::duration, "15s", 10, 30 * minute, "", false, on_reload, "Whole attempt: DNS, connect, TLS, write, read of the answer.", OUTBOXD_SETTING(timeout)},
    key{"defaults.connect_timeout", form::duration, "5s", 10, 30 * minute, "", false, on_reload, "DNS, connect and TLS. Where only `timeout` is written and is shorter, it holds here too.", OUTBOXD_SETTING(connect_timeout)},
    key{"defaults.concurrency", form::whole, "64", 1, 10'000, "", false, on_reload, "Requests on the wire per lane and relay.", OUTBOXD_SETTING(concurrency)},
    key{"defaults.adaptive", form::boolean, "true", 0, 0, "", false, on_reload, "Begin with few requests at once and grow to `concurrency` while answers stay quick; shrink on timeouts, 429 and 503.", OUTBOXD_SETTING(adaptive)},
    key{"defaults.rate_limit", form::rate, "null", 0, 0, "", true, on_reload, "100/s, 6000/m, or { rate: 100/s, burst: 20 }; shared fairly by the live relays.", OUTBOXD_SETTING(rate)},
    key{"defaults.method", form::choice, "POST", 0, 0, "POST|PUT|PATCH", false, on_reload, "HTTP method: POST, PUT or PATCH.", OUTBOXD_SETTING(method)},
    key{"defaults.headers", form::headers, "{}", 0, 0, "", false, on_reload, "Extra request headers. A value may be a secret.", OUTBOXD_SETTING(headers)},
    key{"defaults.format", form::choice, "raw", 0, 0, "raw|enriched|cloudevents-binary|cloudevents-structured", false, on_reload, "raw, enriched, cloudevents-binary or cloudevents-structured.", OUTBOXD_SETTING(format)},
    key{"defaults.signing", form::choice, "standard-webhooks", 0, 0, "none|standard-webhooks|rfc9421|adcp|adcp-base64|github|stripe", false, on_reload, "none, standard-webhooks, rfc9421, adcp, adcp-base64, github or stripe.", OUTBOXD_SETTING(signing)},
    key{"defaults.secrets", form::secrets, "[]", 0, 0, "", false, on_reload, "Sign events that carry their own url; newest first, all sign. Endpoints have their own.", OUTBOXD_FILE(default_secrets)},
    key{"defaults.idempotency_key_format", form::choice, "bare", 0, 0, "bare|structured", false, on_reload, "bare, or structured (quoted, as a structured field string).", OUTBOXD_SETTING(idempotency_key_format)},
    key{"defaults.retry", form::retry, "{ schedule: [5s, 5m, 30m, 2h, 5h, 10h, 10h], jitter: 0.2 }", 0, 0, "", false, on_reload, "8 attempts. Or { base: 10s, factor: 2, max: 1h, max_attempts: 12, jitter: 0.2 }, or a preset: standard-webhooks, adcp, agent-zero, e2a; or { preset: e2a, jitter: 0 }.", OUTBOXD_SETTING(retry)},
    key{"defaults.responses.success", form::statuses, "[2xx]", 0, 0, "", false, on_reload, "Answers that mean published: 2xx, 409, 500-503.", OUTBOXD_SETTING(responses.success)},
    key{"defaults.responses.permanent", form::statuses, "[410]", 0, 0, "", false, on_reload, "Answers that end the delivery as failed; 410 disables the endpoint too. All else is retried.", OUTBOXD_SETTING(responses.permanent)},
    key{"defaults.responses.retry", form::statuses, "[]", 0, 0, "", false, on_reload, "Answers that are retried even if a list above names them.", OUTBOXD_SETTING(responses.retry)},
    key{"defaults.responses.delivery_header", form::boolean, "false", 0, 0, "", false, on_reload, "Obey the answer header webhook-delivery: disable or abort.", OUTBOXD_SETTING(responses.honour_delivery_header)},
    key{"defaults.circuit.failures", form::whole, "5", 0, 1000, "", false, on_reload, "Consecutive failures that open the circuit; 0: never.", OUTBOXD_SETTING(circuit.failures)},
    key{"defaults.circuit.open_for", form::duration, "60s", 100, 7 * day, "", false, on_reload, "Before the first probe; doubled each time that a probe fails ...", OUTBOXD_SETTING(circuit.open_for)},
    key{"defaults.circuit.max_open", form::duration, "1h", 100, 7 * day, "", false, on_reload, "... up to this.", OUTBOXD_SETTING(circuit.max_open)},
    key{"defaults.circuit.half_open_probes", form::whole, "1", 1, 100, "", false, on_reload, "Probes at once, over all relays.", OUTBOXD_SETTING(circuit.half_open_probes)},
    key{"defaults.circuit.successes", form::whole, "2", 1, 100, "", false, on_reload, "Successful probes that close it.", OUTBOXD_SETTING(circuit.successes)},
    key{"defaults.auto_disable.after", form::duration, "5d", minute, 3650 * day, "", true, on_reload, "An endpoint that failed for so long without one success is disabled; null: never.", OUTBOXD_SETTING(auto_disable_after)},
    key{"defaults.on_failed", form::choice, "continue", 0, 0, "continue|block", false, on_reload, "continue, or block: an ordering key waits for an operator.", OUTBOXD_SETTING(on_failed)},
    key{"defaults.max_payload", form::size, "1MiB", 1, gib, "", false, on_reload, "Larger bodies are not sent: failed, with the reason.", OUTBOXD_SETTING(max_payload)},

    key{"endpoints[].name", form::name, "", 0, 0, "", false, on_reload, "1..64 of A-Z a-z 0-9 _ . - and beginning with a letter or digit.", OUTBOXD_ENDPOINT(name)},
    key{"endpoints[].url", form::url, "", 0, 0, "", false, on_reload, "https://host/path; http:// only with egress.allow_http.", OUTBOXD_ENDPOINT(url)},
    key{"endpoints[].events", form::patterns, "[\"*\"]", 0, 0, "", false, on_reload, "Event types; order.* matches any rest, dots too.", OUTBOXD_ENDPOINT(events)},
    key{"endpoints[].tenant", form::text, "null", 1, 255, "", true, on_reload, "Sees this tenant's events only; null: all.", OUTBOXD_ENDPOINT(tenant_id)},
    key{"endpoints[].secrets", form::secrets, "[]", 0, 0, "", false, on_reload, "Signing secrets, whsec_... or whsk_..., newest first; all sign.", OUTBOXD_ENDPOINT(secrets)},
    key{"endpoints[].enabled", form::boolean, "true", 0, 0, "", false, on_reload, "false: deliveries wait, the endpoint counts as disabled.", OUTBOXD_ENDPOINT(enabled)},
    key{"endpoints[].paused", form::boolean, "false", 0, 0, "", false, on_reload, "true: deliveries wait until it is resumed.", OUTBOXD_ENDPOINT(paused)},
    key{"endpoints[].proxy", form::proxy, "null", 0, 0, "", true, on_reload, "Instead of egress.proxy; null, written here: no proxy.", OUTBOXD_SETTING(proxy)},
    key{"endpoints[].tls.ca_file", form::path, "null", 0, 0, "", true, on_reload, "Instead of the key of the same name below `tls`.", OUTBOXD_SETTING(tls.ca_file)},
    key{"endpoints[].tls.client_cert", form::path, "null", 0, 0, "", true, on_reload, "The same.", OUTBOXD_SETTING(tls.client_cert)},
    key{"endpoints[].tls.client_key", form::path, "null", 0, 0, "", true, on_reload, "The same.", OUTBOXD_SETTING(tls.client_key)},
    key{"endpoints[].tls.min_version", form::choice, "\"1.2\"", 0, 0, "1.2|1.3", false, on_reload, "The same.", OUTBOXD_SETTING(tls.min_version)},
    key{"endpoints[].tls.pinned_spki", form::fingerprint, "null", 0, 0, "", true, on_reload, "Base64 of the SHA-256 of the server's public key (SubjectPublicKeyInfo): no other key is accepted.", OUTBOXD_SETTING(tls.pinned_spki)},
    key{"endpoints[].tls.verify", form::boolean, "true", 0, 0, "", false, on_reload, "false: any certificate is accepted, with a warning at every start. For tests only.", OUTBOXD_SETTING(tls.verify)},

    key{"egress.allow", form::rules, "[]", 0, 0, "", false, on_reload, "CIDRs, host names, *.suffix, each with an optional :port. Addresses that are not public are denied unless named here.", OUTBOXD_FILE(egress.policy.allow)},
    key{"egress.deny", form::rules, "[]", 0, 0, "", false, on_reload, "The same forms; deny beats allow.", OUTBOXD_FILE(egress.policy.deny)},
    key{"egress.proxy", form::proxy, "null", 0, 0, "", true, on_reload, "http://user:password@host:port, used by CONNECT. A secret form.", OUTBOXD_FILE(egress.proxy)},
    key{"egress.no_proxy", form::hosts, "[]", 0, 0, "", false, on_reload, "Hosts, *.suffix or CIDRs that are reached without the proxy; \"*\": all.", OUTBOXD_FILE(egress.no_proxy)},
    key{"egress.allow_http", form::boolean, "false", 0, 0, "", false, on_reload, "Permit http:// addresses.", OUTBOXD_FILE(egress.policy.allow_http)},
    key{"egress.trust_config_endpoints", form::boolean, "true", 0, 0, "", false, on_reload, "Addresses of endpoints in this file need no entry in `allow`.", OUTBOXD_FILE(egress.trust_config_endpoints)},

    key{"tls.ca_file", form::path, "null", 0, 0, "", true, on_reload, "PEM file or directory of trusted roots; null: the system's.", OUTBOXD_FILE(tls.ca_file)},
    key{"tls.client_cert", form::path, "null", 0, 0, "", true, on_reload, "PEM chain to show to endpoints that ask; with client_key.", OUTBOXD_FILE(tls.client_cert)},
    key{"tls.client_key", form::path, "null", 0, 0, "", true, on_reload, "PEM key of client_cert.", OUTBOXD_FILE(tls.client_key)},
    key{"tls.min_version", form::choice, "\"1.2\"", 0, 0, "1.2|1.3", false, on_reload, "\"1.2\" or \"1.3\".", OUTBOXD_FILE(tls.min_version)},

    key{"admin.listen", form::listen, "127.0.0.1:9464", 0, 0, "", true, needs_restart, "Health, metrics, API and dashboard; null: none.", OUTBOXD_FILE(admin.listen)},
    key{"admin.token", form::secret, "null", 0, 0, "", true, on_reload, "Bearer token; required where `listen` is no loopback address. A secret form.", OUTBOXD_FILE(admin.token)},

    key{"log.level", form::choice, "info", 0, 0, "trace|debug|info|warn|error", false, on_reload, "trace, debug, info, warn or error.", OUTBOXD_FILE(log.level)},
    key{"log.format", form::choice, "json", 0, 0, "json|text", false, on_reload, "json or text, on stderr.", OUTBOXD_FILE(log.format)},
    key{"log.attempts", form::choice, "failures", 0, 0, "none|failures|all", false, on_reload, "One line per attempt: none, failures or all.", OUTBOXD_FILE(log.attempts)},

    key{"retention.published", form::duration, "30d", 0, 36'500 * day, "", false, on_reload, "Events that are published everywhere.", OUTBOXD_FILE(retention.published)},
    key{"retention.failed", form::duration, "90d", 0, 36'500 * day, "", false, on_reload, "Events with a failed delivery.", OUTBOXD_FILE(retention.failed)},
    key{"retention.attempts", form::duration, "30d", 0, 36'500 * day, "", false, on_reload, "The history of attempts.", OUTBOXD_FILE(retention.attempts)},
};
// clang-format on

#undef OUTBOXD_FILE
#undef OUTBOXD_SETTING
#undef OUTBOXD_ENDPOINT

constexpr std::string_view endpoint_prefix = "endpoints[].";
constexpr std::string_view defaults_prefix = "defaults.";

// Keys of an endpoint that are columns of outbox.endpoint, or rows of endpoint_secret, and so no settings.
bool is_column(std::string_view path) noexcept {
    static constexpr std::array columns{"endpoints[].name", "endpoints[].url", "endpoints[].events", "endpoints[].tenant", "endpoints[].secrets", "endpoints[].enabled", "endpoints[].paused", "defaults.secrets"};
    return std::find(columns.begin(), columns.end(), path) != columns.end();
}

std::vector<scoped_key> collect(scope s) {
    std::vector<scoped_key> out;
    for (const key& row : table) {
        const bool of_endpoint = row.path.starts_with(endpoint_prefix);
        const bool of_defaults = row.path.starts_with(defaults_prefix);
        if (s == scope::file) {
            if (!of_endpoint) out.push_back({std::string(row.path), &row});
        } else if (s == scope::endpoint ? row.path != "defaults.secrets" : !is_column(row.path)) {
            if (of_endpoint) out.push_back({std::string(row.path.substr(endpoint_prefix.size())), &row});
            if (of_defaults) out.push_back({std::string(row.path.substr(defaults_prefix.size())), &row});
        }
    }
    return out;
}

template <class T>
bool equal_values(const T& a, const T& b) {
    if constexpr (std::is_same_v<T, base::secret>) {
        return a.equals(b.reveal());
    } else if constexpr (std::is_same_v<T, std::vector<base::secret>>) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return x.equals(y.reveal()); });
    } else if constexpr (std::is_same_v<T, std::vector<wire::egress_rule>>) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return x.text == y.text; });
    } else {
        return a == b;
    }
}

}  // namespace

bool same_value(const slot& a, const slot& b) {
    return std::visit([&b](const auto* left) { return equal_values(*left, **std::get_if<std::remove_const_t<std::remove_pointer_t<decltype(left)>>*>(&b)); }, a);
}

std::span<const key> keys() { return table; }

const std::vector<scoped_key>& keys_of(scope s) {
    static const std::vector<scoped_key> file = collect(scope::file);
    static const std::vector<scoped_key> endpoint = collect(scope::endpoint);
    static const std::vector<scoped_key> settings = collect(scope::settings);
    switch (s) {
        case scope::file: return file;
        case scope::endpoint: return endpoint;
        case scope::settings: return settings;
    }
    return file;
}

const key* find_key(scope s, std::string_view name) {
    for (const scoped_key& entry : keys_of(s)) {
        if (entry.name == name) return entry.row;
    }
    return nullptr;
}

std::vector<std::string> words_below(scope s, std::string_view prefix) {
    std::vector<std::string> words;
    const std::string start = prefix.empty() ? std::string{} : std::string(prefix) + ".";
    if (s == scope::file && prefix.empty()) words.emplace_back("endpoints");
    for (const scoped_key& entry : keys_of(s)) {
        if (!entry.name.starts_with(start)) continue;
        const std::string rest = entry.name.substr(start.size());
        const std::string word = rest.substr(0, rest.find('.'));
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    return words;
}

std::vector<std::string> names_ending_in(std::string_view word) {
    std::vector<std::string> names;
    for (const key& row : table) {
        const std::size_t dot = row.path.rfind('.');
        if (row.path.substr(dot + 1) == word) names.emplace_back(row.path);
    }
    return names;
}

std::vector<std::string> changed_restart_keys(const config& running, const config& wanted) {
    config left = running;
    config right = wanted;
    std::vector<std::string> changed;
    for (const key& row : table) {
        if (row.reloadable) continue;
        const slot a = row.field({&left, &left.defaults, nullptr});
        const slot b = row.field({&right, &right.defaults, nullptr});
        if (!same_value(a, b)) changed.emplace_back(row.path);
    }
    return changed;
}

}  // namespace outboxd::config
