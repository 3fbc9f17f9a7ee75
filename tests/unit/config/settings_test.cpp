// Role: the settings of an endpoint in the database say the same as in the file.
// Promise: pure.
#include "config/settings.hpp"

#include <chrono>

#include "config_case.hpp"

using namespace outboxd;
using namespace outboxd::config_test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

bool same(const config::endpoint_settings& a, const config::endpoint_settings& b) {
    for (const auto& entry : config::keys_of(config::scope::settings)) {
        config::endpoint_settings left = a;
        config::endpoint_settings right = b;
        const bool equal = config::same_value(entry.row->field({nullptr, &left, nullptr}), entry.row->field({nullptr, &right, nullptr}));
        if (!equal) {
            UNSCOPED_INFO(entry.name);
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE("settings: an endpoint's own keys go through the database unchanged", "[config][settings]") {
    const std::string head = "defaults: { timeout: 20s, rate_limit: 5/s, circuit: { failures: 3 }, headers: { X-A: a } }\negress: { proxy: \"http://p:3128\" }\n";
    for (const std::string& own : {
             std::string("timeout: 3s"),
             std::string("rate_limit: null"),
             std::string("rate_limit: { rate: 0.5/s, burst: 3 }"),
             std::string("retry: { base: 1s, factor: 1.50, max: 1m, max_attempts: 9, jitter: 0.10 }"),
             std::string("retry: { preset: e2a, jitter: 0 }"),
             std::string("retry: { schedule: [1s, 2m] }"),
             std::string("responses: { success: [2xx, 404], retry: [500-503] }"),
             std::string("circuit: { open_for: 5s }"),
             std::string("auto_disable: { after: null }"),
             std::string("auto_disable: null"),
             std::string("headers: { X-B: \"0123\", X-C: '${V}', X-D: \"\\\"q\\\" \xc3\xa9\" }"),
             std::string("proxy: null"),
             std::string("proxy: '${P}'"),
             std::string("tls: { verify: false, min_version: \"1.3\", pinned_spki: \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\" }"),
             std::string("tls: { client_cert: /dev/null, client_key: /dev/null }"),
             std::string("max_payload: 2MiB"),
             std::string("adaptive: false"),
             std::string("method: PUT"),
             std::string("format: enriched"),
             std::string("idempotency_key_format: structured"),
             std::string("on_failed: block"),
             std::string("tenant: t"),
         }) {
        CAPTURE(own);
        const auto result = load(head + one_endpoint(own), {{"V", "v: \n\"x"}, {"P", "http://u:pw@q:1"}});
        CAPTURE(all_text(result));
        if (own.find("${V}") != std::string::npos) {
            CHECK_FALSE(result.value);  // a line end is no header value, wherever it came from
            continue;
        }
        REQUIRE(result.value);
        const auto& e = result.value->endpoints[0];
        CAPTURE(e.settings_json);
        const auto applied = config::apply_settings(result.value->defaults, e.settings_json);
        REQUIRE(applied.has_value());
        CHECK(same(*applied, e.settings));
        if (own.rfind("tenant", 0) != 0) CHECK_FALSE(same(result.value->defaults, e.settings));
        CHECK_THAT(e.settings_json, !Contains("tenant") && !Contains("name"));
    }
}

TEST_CASE("settings: a wrong object is refused, naming the key", "[config][settings]") {
    const config::endpoint_settings defaults = config::built_in_settings();
    struct row {
        const char* json;
        const char* says;
    };
    for (const row& r : std::vector<row>{{"{\"timeout\": 5}", "timeout: must be a duration"},
                                         {"{\"time_out\": \"5s\"}", "time_out: unknown key (did you mean `timeout`?)"},
                                         {"{\"timeout\": \"5s\", \"timeout\": \"6s\"}", "timeout: written twice"},
                                         {"{\"name\": \"x\"}", "name: unknown key"},
                                         {"{\"secrets\": [\"x\"]}", "secrets: unknown key"},
                                         {"{\"concurrency\": \"5\"}", "concurrency: must be a decimal whole number"},
                                         {"{\"concurrency\": 5.5}", "concurrency: must be"},
                                         {"{\"adaptive\": \"true\"}", "adaptive: must be true or false"},
                                         {"{\"timeout\": \"1s\", \"connect_timeout\": \"2s\"}", "connect_timeout: must not be longer"},
                                         {"{\"circuit\": {\"failures\": -1, \"opens\": 1}}", "circuit.failures: must be"},
                                         {"{\"headers\": {\"Authorization\": {\"env\": \"PASSWORD\"}}}", "configuration file only"},
                                         {"{\"headers\": {\"Authorization\": {\"file\": \"/etc/passwd\"}}}", "configuration file only"},
                                         {"{\"tls\": {\"client_cert\": \"/dev/null\"}}", "tls.client_cert: needs client_key"},
                                         {"[]", "must be a JSON object"},
                                         {"{", "not valid JSON"},
                                         {"", "not valid JSON"}}) {
        CAPTURE(r.json);
        const auto applied = config::apply_settings(defaults, r.json);
        REQUIRE_FALSE(applied.has_value());
        CHECK_THAT(applied.error().text, Contains(r.says));
    }
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
    CHECK_FALSE(config::apply_settings(defaults, deep).has_value());
    const auto literal = config::apply_settings(defaults, "{\"headers\": {\"X-A\": \"${HOME}\"}}");
    REQUIRE(literal.has_value());
    CHECK(literal->headers.front().second == "${HOME}");
    CHECK(config::apply_settings(defaults, "{}")->retry.schedule.size() == 7);
}

TEST_CASE("settings: `endpoint set` merges one key", "[config][settings]") {
    struct row {
        const char* before;
        const char* key;
        const char* value;
        const char* after;  // begins with `error ` where it is refused
    };
    for (const row& r : std::vector<row>{
             {"{}", "timeout", "5s", R"({"timeout":"5s"})"},
             {R"({"timeout":"5s","circuit":{"failures":2}})", "circuit.open_for", "10s", R"({"timeout":"5s","circuit":{"failures":2,"open_for":"10s"}})"},
             {R"({"timeout":"5s"})", "timeout", "null", "{}"},
             {R"({"timeout":"5s"})", "rate_limit", "null", R"({"timeout":"5s","rate_limit":null})"},
             {"{}", "rate_limit", "{ rate: 100/s, burst: 5 }", R"({"rate_limit":{"rate":"100/s","burst":5}})"},
             {"{}", "retry", "{ schedule: [1s, 2m], jitter: 0.25 }", R"({"retry":{"schedule":["1s","2m"],"jitter":0.25}})"},
             {"{}", "retry", "{ jitter: 0.50 }", R"({"retry":{"jitter":0.50}})"},
             {"{}", "concurrency", "8", R"({"concurrency":8})"},
             {"{}", "adaptive", "false", R"({"adaptive":false})"},
             {"{}", "headers.X-Team", "0123", R"({"headers":{"X-Team":"0123"}})"},
             {"{}", "responses.success", "[2xx, 404]", R"({"responses":{"success":["2xx",404]}})"},
             {"{}", "concurrency", "\"8\"", "error concurrency: must be"},
             {"{}", "concurency", "8", "error concurency: unknown key (did you mean `concurrency`?)"},
             {"{}", "timeout", "[", "error timeout: not valid YAML"},
             {"{}", "timeout", "5", "error timeout: must be a duration"},
             {"[]", "timeout", "5s", "error settings: must be a JSON object"},
         }) {
        CAPTURE(r.before, r.key, r.value);
        const auto merged = config::merge_setting(r.before, r.key, r.value);
        const std::string said = merged ? *merged : "error " + merged.error().text;
        if (std::string(r.after).rfind("error ", 0) == 0) CHECK_THAT(said, Contains(r.after));
        else CHECK(said == r.after);
    }
}

TEST_CASE("settings: headers and a proxy's credentials are masked for people", "[config][settings][B46]") {
    CHECK(config::redact_settings(R"({"timeout":"5s","headers":{"Authorization":"Bearer x"},"proxy":"http://u:p@w@proxy:3128","concurrency":8})") ==
          R"({"timeout":"5s","headers":{"Authorization":"***"},"proxy":"http://***@proxy:3128","concurrency":8})");
    CHECK(config::redact_settings(R"({"proxy":"http://proxy:3128"})") == R"({"proxy":"http://proxy:3128"})");
    CHECK(config::redact_settings("nonsense") == "{}");
}
