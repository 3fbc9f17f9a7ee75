// Role: the key table, the reference file and the structs say the same.
// Promise: reads the repository's own files.
#include "config/schema.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include "config/near_match.hpp"
#include "config/scalars.hpp"
#include "config/settings.hpp"
#include "config_case.hpp"

using namespace outboxd;
using namespace outboxd::config_test;

namespace {

std::string file_text(const std::string& name) {
    std::ifstream in(std::string(OUTBOXD_SOURCE_DIR) + "/" + name, std::ios::binary);
    REQUIRE(in);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

config::config defaults() {
    config::config c;
    c.defaults = config::built_in_settings();
    return c;
}

// A document that sets this one key to its default.
std::string document_of(const config::key& row) {
    std::string path{row.path};
    std::string text{row.default_text};
    const bool of_endpoint = path.rfind("endpoints[].", 0) == 0;
    if (of_endpoint) path = path.substr(12);
    for (std::size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.')) {
        text = "{ " + path.substr(dot + 1) + ": " + text + " }";
        path.resize(dot);
    }
    return of_endpoint ? one_endpoint(path + ": " + text) : path + ": " + text + "\n";
}

}  // namespace

TEST_CASE("reference file: it is what the key table says", "[config][reference]") {
    CHECK(file_text("config/outboxd.yaml") == config::reference_yaml());
}

TEST_CASE("reference file: it and the minimal file load without a word", "[config][reference]") {
    const auto full = load(file_text("config/outboxd.yaml"));
    CHECK(all_text(full).empty());
    CHECK(full.value);
    const auto minimal = load(file_text("config/outboxd.minimal.yaml"), {{"BILLING_SECRET", good_secret}});
    CHECK(all_text(minimal).empty());
    CHECK(minimal.value);
}

TEST_CASE("key table: each written default is the struct's own default", "[config][reference]") {
    std::set<std::string_view> seen;
    for (const config::key& row : config::keys()) {
        CAPTURE(row.path);
        CHECK(seen.insert(row.path).second);
        CHECK_FALSE(row.sentence.empty());
        if (row.default_text.empty()) continue;  // required
        const auto result = load(document_of(row));
        CAPTURE(document_of(row), all_text(result));
        CHECK(errors(result) == 0);
        REQUIRE(result.value);
        config::config read = *result.value;
        config::config plain = defaults();
        config::endpoint_config fresh;
        const bool of_endpoint = row.path.rfind("endpoints[]", 0) == 0;
        // `proxy: null` of an endpoint says none, which is not the same as saying nothing.
        if (row.path == "endpoints[].proxy") {
            CHECK(read.endpoints[0].settings.proxy == "");
            continue;
        }
        const auto got = row.field({&read, of_endpoint ? &read.endpoints[0].settings : &read.defaults, of_endpoint ? &read.endpoints[0] : nullptr});
        const auto want = row.field({&plain, &plain.defaults, &fresh});
        CHECK(config::same_value(got, want));
    }
}

TEST_CASE("key table: choices are spelled as the names that the rest of the program uses", "[config]") {
    for (const char* name : {"raw", "enriched", "cloudevents-binary", "cloudevents-structured"}) {
        const auto result = load("defaults: { format: " + std::string(name) + " }\n");
        REQUIRE(result.value);
        CHECK(wire::to_string(result.value->defaults.format) == name);
    }
    for (const char* name : {"none", "standard-webhooks", "rfc9421", "adcp", "adcp-base64", "github", "stripe"}) {
        const auto result = load("defaults: { signing: " + std::string(name) + " }\n");
        REQUIRE(result.value);
        CHECK(wire::to_string(result.value->defaults.signing) == name);
    }
    CHECK(load("log: { attempts: none }\n").value->log.attempts == config::log_attempts::none);
    CHECK(load("log: { attempts: failures }\n").value->log.attempts == config::log_attempts::failures);
    CHECK(load("defaults: { idempotency_key_format: structured }\n").value->defaults.idempotency_key_format == wire::idempotency_key_format::structured);
}

TEST_CASE("reload: only keys that need a restart are named", "[config]") {
    const config::config running = defaults();
    config::config wanted = running;
    CHECK(config::changed_restart_keys(running, wanted).empty());
    wanted.relay.lease = base::seconds{99};
    CHECK(config::changed_restart_keys(running, wanted).empty());
    wanted.database.url = base::secret{"postgresql://other/db"};
    wanted.admin.listen = "127.0.0.1:1";
    CHECK(config::changed_restart_keys(running, wanted) == std::vector<std::string>{"database.url", "admin.listen"});
}

TEST_CASE("scalars: sizes, rates, numbers", "[config][B58]") {
    CHECK(config::parse_size("1GiB") == 1LL << 30);
    CHECK(config::parse_size("512B") == 512);
    for (const char* wrong : {"", "KiB", "1", "1K", "1kib", "01KiB", "-1KiB", "1 KiB", "1.5MiB"}) CHECK_FALSE(config::parse_size(wrong));
    CHECK(config::format_size(1536) == "1536B");
    CHECK(config::format_size(2048) == "2KiB");
    CHECK(config::format_size(0) == "0B");
    CHECK(*config::parse_rate("0.5/s") == Approx(0.5));
    CHECK(*config::parse_rate("3600/h") == Approx(1));
    for (const char* wrong : {"", "/s", "5", "5/d", "5/ss", "5 /s", "-5/s", "1e3/s", "inf/s", "05/s"}) CHECK_FALSE(config::parse_rate(wrong));
    CHECK(config::parse_whole("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
    for (const char* wrong : {"", "-", "00", "9223372036854775808", "1.", "0x1", "١"}) CHECK_FALSE(config::parse_whole(wrong));
    for (const char* wrong : {"", ".", "1.", ".5", "1.2.3", "nan", "inf", "1e5", "00.5"}) CHECK_FALSE(config::parse_decimal(wrong));
}

TEST_CASE("near match: suggests what was meant and nothing far-fetched", "[config][B59]") {
    const std::vector<std::string> words{"timeout", "retry", "circuit", "url", "secrets"};
    CHECK(config::near_match("tiemout", words) == "timeout");
    CHECK(config::near_match("TIMEOUT", words) == "timeout");
    CHECK(config::near_match("uri", words) == "url");
    CHECK(config::near_match("secret", words) == "secrets");
    CHECK(config::near_match("colour", words).empty());
    CHECK(config::near_match("", words).empty());
    CHECK(config::near_match(std::string(1000, 'a'), words).empty());
}
