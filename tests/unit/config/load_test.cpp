// Role: what is read from a good file, and what is said about a wrong one.
// Promise: texts only, no network.
#include <chrono>

#include "config_case.hpp"

using namespace outboxd;
using namespace outboxd::config_test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("configuration: nothing at all is valid and means the defaults", "[config][B55]") {
    for (const char* text : {"", "\n", "# only a comment\n", "---\n", "--- # with a comment\n...\n", "relay:\n", "endpoints:\n", "endpoints: []\n", "\xef\xbb\xbf", "\xef\xbb\xbf# mark\r\n"}) {
        CAPTURE(text);
        const auto result = load(text);
        CHECK(all_text(result).empty());
        REQUIRE(result.value);
        CHECK(result.value->relay.max_in_flight == 1024);
        CHECK(result.value->defaults.retry.schedule.size() == 7);
        CHECK(result.value->endpoints.empty());
    }
}

TEST_CASE("configuration: every section arrives in its field", "[config]") {
    const auto result = load(R"(
database: { url: "postgresql://outboxd:pw@db/app", schema: events }
relay: { max_in_flight: 10, max_in_flight_bytes: 2MiB, lease: 90s, notify: false, operator_events: true }
routing: { unrouted_grace: 1h, inline_limit: 8 }
defaults:
  timeout: 40s
  rate_limit: 6000/m
  headers: { X-Team: payments }
  secrets: [)" + good_secret + R"(]
  responses: { success: [2xx, 409], permanent: [410, 404], retry: [409], delivery_header: true }
  circuit: { failures: 3, open_for: 10s }
  auto_disable: null
endpoints:
  - name: billing
    url: https://billing.example.com/hooks?a=1
    events: ["order.*", "invoice.paid"]
    tenant: no
    secrets: [)" + good_secret + R"(]
    timeout: 3s
    rate_limit: { rate: 100/s, burst: 7 }
    circuit: { failures: 9 }
    retry: agent-zero
    format: cloudevents-structured
    on_failed: block
    adaptive: false
    proxy: null
egress: { allow: ["10.0.0.0/8", "*.internal:8443"], no_proxy: [".local"], proxy: "http://u:p@proxy:3128" }
admin: { listen: null }
log: { attempts: all, level: debug, format: text }
retention: { published: 1d }
)");
    CHECK(all_text(result).empty());
    REQUIRE(result.value);
    const config::config& c = *result.value;
    CHECK(c.database.url.reveal() == "postgresql://outboxd:pw@db/app");
    CHECK(c.database.schema == "events");
    CHECK(c.relay.max_in_flight_bytes == 2 << 20);
    CHECK(c.relay.lease == 90s);
    CHECK_FALSE(c.relay.notify);
    CHECK(c.routing.inline_limit == 8);
    CHECK(c.defaults.rate->per_second == Approx(100));
    CHECK(c.defaults.headers == wire::header_list{{"X-Team", "payments"}});
    CHECK(c.defaults.responses.permanent.contains(404));
    CHECK(c.defaults.responses.honour_delivery_header);
    CHECK_FALSE(c.defaults.auto_disable_after);
    CHECK(c.default_secrets.size() == 1);
    REQUIRE(c.endpoints.size() == 1);
    const auto& e = c.endpoints.front();
    CHECK(e.name == "billing");
    CHECK(e.where == "test.yaml:14");
    CHECK(e.tenant_id == "no");
    CHECK(e.events == std::vector<std::string>{"order.*", "invoice.paid"});
    CHECK(e.settings.timeout == 3s);
    CHECK(e.settings.connect_timeout == 3s);  // shortened along with the timeout
    CHECK(e.settings.rate->burst == 7);
    CHECK(e.settings.circuit.failures == 9);
    CHECK(e.settings.circuit.open_for == 10s);  // from defaults
    CHECK(e.settings.retry == *lifecycle::retry_preset("agent-zero"));
    CHECK(e.settings.format == wire::body_format::cloudevents_structured);
    CHECK(e.settings.on_failed == config::on_failed::block);
    CHECK(e.settings.responses.success.contains(409));
    CHECK(e.settings.proxy == "");
    CHECK_FALSE(e.settings.adaptive);
    CHECK(c.egress.policy.allow.size() == 2);
    CHECK(c.egress.no_proxy == std::vector<std::string>{"*.local"});
    CHECK(c.admin.listen.empty());
    CHECK(c.log.attempts == config::log_attempts::all);
    CHECK(c.retention.published == 24h);
}

TEST_CASE("configuration: one wrong thing is one problem with its line and key", "[config][B55][B58][B59]") {
    struct row {
        const char* text;
        int line;
        const char* key;
        const char* says;
    };
    const std::vector<row> table{
        // Written twice.
        {"endpoints: []\nrelay: {}\nendpoints: []\n", 3, "endpoints", "written twice; the first is in line 1"},
        {"relay:\n  lease: 60s\n  lease: 61s\n", 3, "relay.lease", "written twice; the first is in line 2"},
        {"relay: {}\nrelay: {}\n", 2, "relay", "written twice"},
        {"log: { level: info }\nLog: { level: info }\n", 2, "Log", "did you mean `log`?"},
        {"defaults: { headers: { X-A: a, x-a: b } }\n", 1, "defaults.headers", "header"},
        {"defaults: { retry: { jitter: 0, jitter: 0 } }\n", 1, "defaults.retry.jitter", "written twice"},
        // Unknown keys.
        {"endponts: []\n", 1, "endponts", "did you mean `endpoints`?"},
        {"defaults: { time_out: 5s }\n", 1, "defaults.time_out", "did you mean `timeout`?"},
        {"defaults: { retires: 3 }\n", 1, "defaults.retires", "did you mean `retry`?"},
        {"defaults: { retry: { max_attempt: 3 } }\n", 1, "defaults.retry.max_attempt", "did you mean `max_attempts`?"},
        {"defaults: { verfy_tls: false }\n", 1, "defaults.verfy_tls", "did you mean `endpoints[].tls.verify`?"},
        {"lease: 60s\n", 1, "lease", "the key of this name is `relay.lease`"},
        {"relay: { timeout: 5s }\n", 1, "relay.timeout", "the key of this name is `defaults.timeout`"},
        {"relay.lease: 60s\n", 1, "relay.lease", "unknown key"},
        {"relay: { \"lease \": 60s }\n", 1, "relay.lease ", "did you mean `lease`?"},
        {"egress: { allow_private: true }\n", 1, "egress.allow_private", "unknown key"},
        {"next_years_section: {}\n", 1, "next_years_section", "unknown key"},
        {"endpoints: [{ name: a, url: https://a.example/, signing: none, secrts: [] }]\n", 1, "endpoints[0].secrts", "endpoint a: unknown key (did you mean `secrets`?)"},
        // Wrong kinds.
        {"relay: []\n", 1, "relay", "must be a section with the keys max_in_flight"},
        {"- relay\n", 1, "", "must be a section with the keys endpoints, database"},
        {"just text\n", 1, "", "must be a section"},
        {"endpoints: {}\n", 1, "endpoints", "must be a list of endpoints"},
        {"endpoints: [billing]\n", 1, "endpoints[0]", "must be a section"},
        {"relay: { lease: [60s] }\n", 1, "relay.lease", "must be a duration"},
        {"relay: { lease: {} }\n", 1, "relay.lease", "not a section"},
        {"defaults: { circuit: null }\n", 1, "defaults.circuit", "must be a section, not null"},
        {"? [a]\n: b\n", 1, "", "a key must be a plain word"},
        // Numbers.
        {"relay: { max_in_flight: 0123 }\n", 1, "relay.max_in_flight", "a decimal whole number from 1 to 100000"},
        {"relay: { max_in_flight: 08 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: 0x10 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: 1_000 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: 1e3 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: 80.5 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: +5 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: -1 }\n", 1, "relay.max_in_flight", "from 1 to"},
        {"relay: { max_in_flight: 0 }\n", 1, "relay.max_in_flight", "from 1 to"},
        {"relay: { max_in_flight: 99999999999999999999 }\n", 1, "relay.max_in_flight", "from 1 to"},
        {"relay: { max_in_flight: \"5\" }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: 22:22 }\n", 1, "relay.max_in_flight", "decimal"},
        {"relay: { max_in_flight: null }\n", 1, "relay.max_in_flight", "not null"},
        {"relay: { max_in_flight: }\n", 1, "relay.max_in_flight", "not null"},
        {"defaults: { retry: { max_attempts: 0 } }\n", 1, "defaults.retry.max_attempts", "from 1 to 1000"},
        {"defaults: { retry: { jitter: 1.5 } }\n", 1, "defaults.retry.jitter", "from 0 to 1"},
        {"defaults: { retry: { jitter: .5 } }\n", 1, "defaults.retry.jitter", "decimal"},
        {"admin: { listen: 127.0.0.1:70000 }\n", 1, "admin.listen", "ADDRESS:PORT"},
        {"admin: { listen: 127.0.0.1:0123 }\n", 1, "admin.listen", "ADDRESS:PORT"},
        {"admin: { listen: 127.0.0.1:-1 }\n", 1, "admin.listen", "ADDRESS:PORT"},
        {"admin: { listen: 9464 }\n", 1, "admin.listen", "ADDRESS:PORT"},
        {"admin: { listen: \"::1:9464\" }\n", 1, "admin.listen", "ADDRESS:PORT"},
        // Durations and sizes.
        {"relay: { lease: 60 }\n", 1, "relay.lease", "a duration such as 250ms, 5s, 10m, 2h or 7d"},
        {"relay: { lease: 60 s }\n", 1, "relay.lease", "duration"},
        {"relay: { lease: 0 }\n", 1, "relay.lease", "duration"},
        {"relay: { lease: 0s }\n", 1, "relay.lease", "from 1s to 1h"},
        {"relay: { lease: -1s }\n", 1, "relay.lease", "duration"},
        {"relay: { lease: 1e9s }\n", 1, "relay.lease", "duration"},
        {"relay: { lease: PT5S }\n", 1, "relay.lease", "duration"},
        {"relay: { lease: 9223372036854775807s }\n", 1, "relay.lease", "duration"},
        {"relay: { max_in_flight_bytes: 67108864 }\n", 1, "relay.max_in_flight_bytes", "a size such as"},
        {"relay: { max_in_flight_bytes: 64MB }\n", 1, "relay.max_in_flight_bytes", "a size such as"},
        {"relay: { max_in_flight_bytes: 9223372036854775807GiB }\n", 1, "relay.max_in_flight_bytes", "a size such as"},
        {"defaults: { rate_limit: 100 }\n", 1, "defaults.rate_limit", "a rate such as 100/s"},
        {"defaults: { rate_limit: 0/s }\n", 1, "defaults.rate_limit", "more than 0"},
        {"defaults: { rate_limit: { burst: 5 } }\n", 1, "defaults.rate_limit", "a rate such as"},
        {"defaults: { rate_limit: { rate: 5/s, burst: 0 } }\n", 1, "defaults.rate_limit.burst", "from 1 to"},
        // Booleans and choices.
        {"relay: { notify: no }\n", 1, "relay.notify", "true or false, without quotes"},
        {"relay: { notify: \"false\" }\n", 1, "relay.notify", "quoted text is neither"},
        {"relay: { notify: True }\n", 1, "relay.notify", "true or false"},
        {"relay: { notify: 1 }\n", 1, "relay.notify", "true or false"},
        {"egress: { allow_http: ture }\n", 1, "egress.allow_http", "true or false"},
        {"defaults: { signing: standard_webhooks }\n", 1, "defaults.signing", "did you mean `standard-webhooks`?"},
        {"defaults: { signing: hmac-md5 }\n", 1, "defaults.signing", "one of none, standard-webhooks"},
        {"defaults: { retry: standard-webhoks }\n", 1, "defaults.retry", "did you mean `standard-webhooks`?"},
        {"defaults: { method: GET }\n", 1, "defaults.method", "one of POST, PUT, PATCH"},
        {"tls: { min_version: 1.1 }\n", 1, "tls.min_version", "one of 1.2, 1.3"},
        // Texts.
        {"database: { schema: Outbox }\n", 1, "database.schema", "a-z"},
        {"database: { schema: pg_catalog }\n", 1, "database.schema", "pg_"},
        {"database: { schema: \"a\\\"b\" }\n", 1, "database.schema", "a-z"},
        {"endpoints: [{ name: \"a b\", url: https://a.example/, signing: none }]\n", 1, "endpoints[0].name", "a name of 1 to 64"},
        {"endpoints: [{ name: null, url: https://a.example/, signing: none }]\n", 1, "endpoints[0].name", "put text in quotes"},
        {"endpoints: [{ url: https://a.example/, signing: none }]\n", 1, "endpoints[0].name", "is missing"},
        {"endpoints: [{ name: a, signing: none }]\n", 1, "endpoints[0].url", "is missing"},
        {"endpoints: [{ name: a, url: \"ftp://a.example/\", signing: none }]\n", 1, "endpoints[0].url", "endpoint a: "},
        {"endpoints: [{ name: a, url: http://a.example/, signing: none }]\n", 1, "endpoints[0].url", "egress.allow_http"},
        {"endpoints: [{ name: a, url: https://a.example/, signing: none, events: [\"*.paid\"] }]\n", 1, "endpoints[0].events", "entry 1"},
        {"endpoints: [{ name: a, url: https://a.example/, signing: none, events: order.* }]\n", 1, "endpoints[0].events", "a list of event types"},
        {"egress: { allow: [\"10.0.0.0/33\"] }\n", 1, "egress.allow", "entry 1"},
        {"egress: { proxy: \"socks5://proxy:1080\" }\n", 1, "egress.proxy", "http://host:port"},
        {"defaults: { responses: { success: [twohundred] } }\n", 1, "defaults.responses.success", "status"},
        {"defaults: { headers: { Content-Length: \"3\" } }\n", 1, "defaults.headers", "header"},
        {"defaults: { headers: { X-A: null } }\n", 1, "defaults.headers.X-A", "not null"},
        {"tls: { ca_file: /nonexistent/ca.pem }\n", 1, "tls.ca_file", "cannot read /nonexistent/ca.pem"},
        {"endpoints: [{ name: a, url: https://a.example/, signing: none, tls: { pinned_spki: abc } }]\n", 1, "endpoints[0].tls.pinned_spki", "SHA-256"},
        {"database: { url: \"mysql://db/app\" }\n", 1, "database.url", "postgresql://"},
        {"database: { url: \"\" }\n", 1, "database.url", "empty"},
        // Retry.
        {"defaults: { retry: { schedule: [5s], base: 1s } }\n", 1, "defaults.retry", "schedule cannot stand beside"},
        {"defaults: { retry: { factor: 2 } }\n", 1, "defaults.retry", "need base"},
        {"defaults: { retry: { base: 10s, max: 5s } }\n", 1, "defaults.retry.max", "not be less than base"},
        {"defaults: { retry: { schedule: [5s, 5] } }\n", 1, "defaults.retry.schedule", "entry 2"},
        {"defaults: { retry: { schedule: 5s } }\n", 1, "defaults.retry.schedule", "a list of durations"},
        {"defaults: { retry: 5 }\n", 1, "defaults.retry", "presets are"},
    };
    for (const row& r : table) {
        CAPTURE(r.text);
        const auto result = load(r.text);
        CAPTURE(all_text(result));
        CHECK_FALSE(result.value);
        REQUIRE(errors(result) == 1);
        const auto& p = *std::find_if(result.problems.begin(), result.problems.end(), [](const auto& q) { return !q.warning; });
        CHECK(p.file == "test.yaml");
        CHECK(p.line == r.line);
        CHECK(p.key == r.key);
        CHECK_THAT(p.text, Contains(r.says));
    }
}

TEST_CASE("configuration: conflicts between keys are found wherever they are written", "[config][B55]") {
    struct row {
        std::string text;
        int line;
        const char* key;
        const char* says;
    };
    const std::vector<row> table{
        {"relay: { lease: 20s }\n", 1, "relay.lease", "twice"},
        {"defaults: { timeout: 31s }\n", 1, "defaults.timeout", "twice"},
        {one_endpoint("timeout: 31s"), 5, "endpoints[0].timeout", "endpoint billing: relay.lease must be at least twice"},
        {"defaults: { timeout: 4s, connect_timeout: 5s }\n", 1, "defaults.connect_timeout", "not be longer than timeout"},
        {one_endpoint("connect_timeout: 16s"), 5, "endpoints[0].connect_timeout", "not be longer than timeout"},
        {"relay: { max_in_flight_bytes: 512KiB }\n", 1, "relay.max_in_flight_bytes", "max_payload must not be more"},
        {one_endpoint("max_payload: 65MiB"), 5, "endpoints[0].max_payload", "max_payload must not be more"},
        {"defaults: { circuit: { open_for: 2h } }\n", 1, "defaults.circuit.max_open", "open_for"},
        {"tls: { client_cert: /dev/null }\n", 1, "tls.client_cert", "needs client_key"},
        {"tls: { client_key: /dev/null }\n", 1, "tls.client_key", "needs client_cert"},
        {one_endpoint("tls: { client_cert: /dev/null }"), 5, "endpoints[0].tls.client_cert", "needs client_key"},
        {"tls: { client_cert: /dev/null, client_key: /dev/null }\n" + one_endpoint("tls: { client_cert: /dev/null }"), 6, "endpoints[0].tls.client_cert", "needs client_key"},
        {"admin: { listen: \"0.0.0.0:9464\" }\n", 1, "admin.listen", "admin.token is required"},
        {"admin: { listen: \"[::]:9464\" }\n", 1, "admin.listen", "admin.token is required"},
        {one_endpoint("") + "  - { name: billing, url: \"https://b.example/\", signing: none }\n", 5, "endpoints[1].name", "taken by endpoints[0] in line 2"},
    };
    for (const row& r : table) {
        CAPTURE(r.text);
        const auto result = load(r.text);
        CAPTURE(all_text(result));
        REQUIRE(result.problems.size() == 1);
        CHECK(result.problems[0].line == r.line);
        CHECK(result.problems[0].key == r.key);
        CHECK_THAT(result.problems[0].text, Contains(r.says));
    }
}

TEST_CASE("configuration: what looks like a conflict and is none", "[config]") {
    for (const std::string& text : {
             std::string("defaults: { timeout: 2s }\n"),
             std::string("admin: { listen: \"127.8.9.1:0\" }\n"),
             std::string("admin: { listen: \"[::1]:9464\" }\n"),
             std::string("admin: { listen: \"localhost:9464\" }\n"),
             std::string("admin: { listen: \"0.0.0.0:9464\", token: t0ken }\n"),
             std::string("relay: { lease: 30s }\n"),
             std::string("egress: { allow_http: true }\nendpoints: [{ name: a, url: \"http://a.example/\", signing: none }]\n"),
             std::string("egress: { no_proxy: [\"*\"] }\n"),
             one_endpoint("retry: { preset: e2a, jitter: 0 }"),
             one_endpoint("events: []"),
         }) {
        CAPTURE(text);
        const auto result = load(text);
        CHECK(all_text(result).empty());
        CHECK(result.value);
    }
}

TEST_CASE("configuration: all problems of a file come at once, in its order", "[config][B59]") {
    const auto result = load("relay:\n  lease: 5\n  notfy: true\ndefaults:\n  timeout: 1y\n  retry: { jitter: 7 }\nendpoints:\n  - { name: a }\nlog: { level: loud }\n");
    CAPTURE(all_text(result));
    REQUIRE(errors(result) == 6);
    std::vector<int> lines;
    for (const auto& p : result.problems) {
        if (!p.warning) lines.push_back(p.line);
    }
    CHECK(lines == std::vector<int>{2, 3, 5, 6, 8, 9});
    CHECK(result.problems[0].to_string().rfind("test.yaml:2: relay.lease: must be a duration", 0) == 0);
}

TEST_CASE("configuration: text fields keep their text exactly", "[config][B58]") {
    for (const char* text : {"no", "on", "0123", "1e3", "1_000", "22:22", "yes", "0x1F90", "\"null\"", "'~'", "\"true\""}) {
        const std::string written = text;
        const std::string meant = written.front() == '"' || written.front() == '\'' ? written.substr(1, written.size() - 2) : written;
        CAPTURE(written);
        const auto result = load("admin: { token: " + written + " }\n" + one_endpoint("tenant: " + written));
        CHECK(all_text(result).empty());
        REQUIRE(result.value);
        CHECK(result.value->endpoints[0].tenant_id == meant);
        CHECK(result.value->admin.token.reveal() == meant);
    }
    // Endpoint names are narrower, and just as literal.
    for (const char* name : {"on", "no", "0123", "1e3", "1_000", "\"null\""}) {
        const auto result = load("endpoints: [{ name: " + std::string(name) + ", url: https://a.example/, signing: none }]\n");
        CAPTURE(name, all_text(result));
        REQUIRE(result.value);
    }
    // An unquoted null is null.
    for (const char* nothing : {"null", "~", "Null", ""}) {
        const auto result = load(one_endpoint("tenant: " + std::string(nothing)));
        CAPTURE(nothing, all_text(result));
        REQUIRE(result.value);
        CHECK_FALSE(result.value->endpoints[0].tenant_id);
    }
}

TEST_CASE("configuration: every form of retry", "[config][retry]") {
    struct row {
        const char* text;
        std::vector<base::milliseconds> pauses;  // at jitter's middle
        int attempts;
        double jitter;
    };
    const std::vector<row> table{
        {"standard-webhooks", {5s, 5min, 30min, 2h, 5h, 10h, 10h}, 8, 0.2},
        {"{ schedule: [1s, 2m], jitter: 0 }", {1s, 2min}, 3, 0},
        {"{ schedule: [] }", {}, 1, 0.2},
        {"{ schedule: [1s, 2s], max_attempts: 5 }", {1s, 2s, 2s, 2s}, 5, 0.2},
        {"{ max_attempts: 2 }", {5s}, 2, 0.2},
        {"{ base: 1s, factor: 3, max: 10s, max_attempts: 5, jitter: 0.1 }", {1s, 3s, 9s, 10s}, 5, 0.1},
        {"{ base: 100ms, max_attempts: 3 }", {100ms, 200ms}, 3, 0.2},
        {"{ preset: adcp, max_attempts: 7 }", {1s, 2s, 4s, 8s, 16s, 30s}, 7, 0.5},
        {"{ preset: e2a, jitter: 0.05 }", {1min, 5min, 15min, 1h, 4h, 8h, 16h}, 8, 0.05},
        {"{ preset: agent-zero, factor: 1, max_attempts: 3 }", {10s, 10s}, 3, 0.2},
        {"{ jitter: 0 }", {5s, 5min, 30min, 2h, 5h, 10h, 10h}, 8, 0},
    };
    for (const row& r : table) {
        CAPTURE(r.text);
        const auto result = load("defaults: { retry: " + std::string(r.text) + " }\n");
        CAPTURE(all_text(result));
        REQUIRE(result.value);
        const auto& policy = result.value->defaults.retry;
        std::vector<base::milliseconds> pauses;
        for (int attempt = 1; const auto pause = lifecycle::next_pause(policy, attempt, 0, 0.5); ++attempt) pauses.push_back(*pause);
        CHECK(pauses == r.pauses);
        CHECK(policy.max_attempts == r.attempts);
        CHECK(policy.jitter == r.jitter);
    }
}
