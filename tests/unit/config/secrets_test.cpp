// Role: where secrets come from, and that none of them is ever said.
// Promise: a made-up environment and a private directory.
#include <unistd.h>

#include <filesystem>

#include "config/addresses.hpp"
#include "config/environment.hpp"
#include "config_case.hpp"
#include "support/tls_material.hpp"

using namespace outboxd;
using namespace outboxd::config_test;
using Catch::Matchers::Contains;

namespace {

std::string token_of(const config::load_result& result) { return result.value ? std::string(result.value->admin.token.reveal()) : "<none>"; }

}  // namespace

TEST_CASE("secrets: only the documented form is replaced, a dollar elsewhere survives", "[config][B61]") {
    struct row {
        const char* written;
        std::string meant;
        bool warned;
    };
    const std::map<std::string, std::string> variables{{"A", "${A}"}, {"BANG", "!abc"}, {"COLON", "a: b"}, {"HASH", "x #y"}, {"LINES", "one\ntwo\n"}, {"QUOTE", "\"q\""}, {"SPACES", "  s"}, {"HOME", "/home"}};
    const std::vector<row> table{
        {"kq$mnp@rt", "kq$mnp@rt", false}, {"Tr7$HOME-x", "Tr7$HOME-x", false}, {"$$", "$$", false},
        {"'${'", "${", false},             {"'x${A}'", "x${A}", false},         {"'${A}x'", "${A}x", false},
        {"'$A'", "$A", false},             {"'${A:-x}'", "${A:-x}", true},      {"'${}'", "${}", true},
        {"${A}", "${A}", false},           {"'${A}'", "${A}", false},           {"\"${BANG}\"", "!abc", false},
        {"${COLON}", "a: b", false},       {"${HASH}", "x #y", false},          {"{ env: LINES }", "one\ntwo\n", false},
        {"{ env: QUOTE }", "\"q\"", false}, {"{ env: SPACES }", "  s", false},  {"0123", "0123", false},
    };
    for (const row& r : table) {
        CAPTURE(r.written);
        const auto result = load("admin:\n  token: " + std::string(r.written) + "\n", variables);
        CAPTURE(all_text(result));
        CHECK(errors(result) == 0);
        CHECK(result.problems.size() == (r.warned ? 1U : 0U));
        CHECK(token_of(result) == r.meant);
    }
}

TEST_CASE("secrets: an unset or empty variable stops the start and is named", "[config][B61]") {
    for (const char* written : {"${UNSET}", "{ env: UNSET }"}) {
        const auto result = load("database: { url: \"" + std::string("${UNSET}") + "\" }\nadmin:\n  token: " + written + "\n");
        CHECK_FALSE(result.value);
        REQUIRE(result.problems.size() == 2);
        CHECK(result.problems[0].key == "database.url");
        CHECK(result.problems[1].text == "the environment variable UNSET is not set");
    }
    const auto empty = load("admin: { token: { env: EMPTY } }\n", {{"EMPTY", ""}});
    REQUIRE(empty.problems.size() == 1);
    CHECK(empty.problems[0].text == "the environment variable EMPTY is empty");
}

TEST_CASE("secrets: a command that needs none goes without those it cannot have, but for connection strings and mistakes", "[config]") {
    const std::string endpoint = "endpoints:\n  - name: a\n    url: https://a.example/\n    secrets: [{ env: UNSET }, { file: /no/such/file }]\n    headers: { Authorization: \"${UNSET}\" }\n";
    const auto without = load("admin: { token: { env: UNSET } }\n" + endpoint, {}, config::secrets::not_needed);
    CAPTURE(all_text(without));
    REQUIRE(without.value);
    CHECK(without.problems.empty());
    CHECK(errors(load(endpoint)) == 3);
    CHECK(errors(load("database: { url: \"${UNSET}\" }\n", {}, config::secrets::not_needed)) == 1);
    CHECK(errors(load("admin: { token: { wrong: UNSET } }\n", {}, config::secrets::not_needed)) == 1);
}

TEST_CASE("secrets: a section that is no reference is refused without repeating it", "[config][B46][B59]") {
    for (const char* written : {"{ hunter2: }", "{ hunter2 }", "{ env: A, file: B }", "{ env: \"hunter2 x\" }", "{ env: null }", "{ ENV: A }", "[hunter2]", "{}", "{ file: { hunter2: x } }", "{ file: \"\" }"}) {
        CAPTURE(written);
        const auto result = load("admin: { token: " + std::string(written) + " }\n", {{"A", "x"}});
        CAPTURE(all_text(result));
        CHECK_FALSE(result.value);
        CHECK(errors(result) == 1);
        CHECK_THAT(all_text(result), !Contains("hunter2"));
    }
}

TEST_CASE("secrets: a file loses exactly one line end and nothing else", "[config][B62]") {
    const testkit::temporary_directory directory;
    struct row {
        std::string content;
        std::string meant;  // empty: refused
    };
    const std::vector<row> table{
        {"t0ken", "t0ken"},     {"t0ken\n", "t0ken"},       {"t0ken\r\n", "t0ken"},
        {"t0ken\n\n", "t0ken\n"}, {" t0ken \n", " t0ken "},   {"\xef\xbb\xbft0ken", "\xef\xbb\xbft0ken"},
        {"a\r", "a\r"},         {std::string("a\0b\xff\n", 5), std::string("a\0b\xff", 4)},
        {"", ""},               {"\n", ""},                 {"\r\n", ""},
        {std::string(65536, 'x'), std::string(65536, 'x')}, {std::string(1 << 20, 'x'), ""},
    };
    for (const row& r : table) {
        CAPTURE(r.content.substr(0, 20));
        directory.write("token", r.content);
        const auto file = directory.write("outboxd.yaml", "admin: { token: { file: token } }\n");  // relative to the configuration
        const auto result = config::load_file(file.string(), environment_of({}));
        CAPTURE(all_text(result));
        CHECK(result.value.has_value() == !r.meant.empty());
        if (result.value) CHECK(token_of(result) == r.meant);
        else CHECK_THAT(all_text(result), Contains(directory.path().string()));
    }
}

TEST_CASE("secrets: files that cannot be had are named; loose permissions are a warning; a link is followed", "[config][B62]") {
    const testkit::temporary_directory directory;
    const auto load_token = [&](const std::string& path) { return load("admin: { token: { file: \"" + path + "\" } }\n"); };
    const std::string base = directory.path().string();
    CHECK_THAT(all_text(load_token(base + "/missing")), Contains("No such file"));
    CHECK_THAT(all_text(load_token(base)), Contains("is a directory"));
    for (const auto& [mode, warned] : std::vector<std::pair<unsigned, bool>>{{0600, false}, {0400, false}, {0640, false}, {0644, true}, {0660, true}, {0602, true}}) {
        const auto path = directory.write("secret" + std::to_string(mode), "t0ken\n", mode);
        const auto result = load_token(path.string());
        CAPTURE(mode, all_text(result));
        CHECK(result.value);
        CHECK(result.problems.size() == (warned ? 1U : 0U));
    }
    // Kubernetes swaps a link; the next load sees the new file.
    const auto link = directory.path() / "link";
    std::filesystem::create_symlink(directory.write("first", "one\n"), link);
    CHECK(token_of(load_token(link.string())) == "one");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(directory.write("second", "two\n"), link);
    CHECK(token_of(load_token(link.string())) == "two");
    // The store reads the file of the database's address again when it reconnects.
    const auto url = directory.write("url", "postgresql://db/app\n");
    const auto result = load("database: { url: { file: \"" + url.string() + "\" } }\n");
    REQUIRE(result.value);
    CHECK(result.value->database.url_file == url.string());
    CHECK(result.value->database.url.reveal() == "postgresql://db/app");
}

TEST_CASE("secrets: signing secrets are checked and the endpoint is named, never the value", "[config][B44]") {
    struct row {
        const char* written;
        bool good;
    };
    const std::string body = good_secret.substr(6);
    const std::vector<std::pair<std::string, bool>> table{
        {good_secret, true}, {body, true}, {"v1," + good_secret, false}, {"whsec_!!!", false}, {"\"\"", false}, {"whsec_AAAAAA==", false}, {"\"" + good_secret + "\\n\"", false}, {"whsec_hunter2", false},
    };
    for (const auto& [written, good] : table) {
        CAPTURE(written);
        const auto result = load("endpoints:\n  - name: billing\n    url: https://a.example/\n    secrets:\n      - " + good_secret + "\n      - " + written + "\n");
        CAPTURE(all_text(result));
        CHECK(result.value.has_value() == good);
        if (good) continue;
        REQUIRE(errors(result) == 1);
        CHECK(result.problems[0].line == 6);
        CHECK(result.problems[0].key == "endpoints[0].secrets[1]");
        CHECK_THAT(result.problems[0].text, Contains("endpoint billing: "));
        CHECK_THAT(all_text(result), !Contains("hunter2") && !Contains("!!!") && !Contains(body));
    }
    // Other schemes take the text's bytes as the key.
    CHECK(load("endpoints: [{ name: a, url: https://a.example/, signing: github, secrets: [any-text] }]\n").value);
}

TEST_CASE("secrets: an endpoint without one is warned about while signing is on", "[config]") {
    const auto result = load("endpoints: [{ name: a, url: https://a.example/ }, { name: b, url: https://b.example/, signing: none }]\n");
    CHECK(result.value);
    REQUIRE(result.problems.size() == 1);
    CHECK(result.problems[0].warning);
    CHECK(result.problems[0].to_string() == "test.yaml:1: warning: endpoints[0].secrets: endpoint a: no secrets: its requests are sent unsigned (signing: none says that this is meant)");
}

TEST_CASE("secrets: none reaches a problem's text, whatever else is wrong", "[config][B46]") {
    const std::string pw = "Pa55w0rd";
    for (const std::string& text : {
             "database: { url: postgresql://u:" + pw + "@h/db }\nrelay: 5\n",
             "database: { url: \"mysql://u:" + pw + "@h/db\" }\n",
             "database: { url: \"postgresql://u:" + pw + "@h/db\\n\" }\n",
             "database: { url: *" + pw + " }\n",
             "database: { url: &" + pw + " }\n",
             "database: { url: !" + pw + " }\n",
             "database: { url: @" + pw + " }\n",
             "database: { url: %" + pw + " }\n",
             "database: { url: \"" + pw + " }\n",
             "database: { url: '" + pw + "\n",
             "database: { url: \"\\q" + pw + "\" }\n",
             "database: " + pw + "\n",
             "database: { url: { " + pw + ": x } }\n",
             "database: { url: [" + pw + "] }\n",
             "database:\n\turl: " + pw + "\n",
             "admin: { token: " + pw + "\x01 }\n",
             "admin: { listen: " + pw + " }\n",
             "egress: { proxy: \"http://u:" + pw + "/x@proxy:3128\" }\n",
             "egress: { proxy: \"https://u:" + pw + "@proxy:3128\" }\n",
             "egress: { proxy: \"http://u:" + pw + "@proxy:99999\" }\n",
             "defaults: { headers: { Authorization: \"Bearer " + pw + "\\r\\nX: y\" } }\n",
             "defaults: { headers: { Connection: " + pw + " } }\n",
             "defaults: { headers: { Authorization: [" + pw + "] } }\n",
             "defaults: { secrets: [whsec_" + pw + "] }\n",
             "defaults: { secrets: whsec_" + pw + " }\n",
             "defaults: { secrets: { whsec_" + pw + ": } }\n",
             "whsec_" + pw + ": x\n",
             "endpoints: [{ name: a, url: \"https://u:" + pw + "@a.example/\", signing: none }]\n",
             "endpoints: [{ name: a, url: \"https://a.example:99999/?token=" + pw + "\", signing: none }]\n",
             "endpoints: [{ name: a, url: \"http://a.example/?token=" + pw + "\", signing: none }]\n",
             "endpoints: [{ name: a, url: https://a.example/, secrets: [\"v1,whsec_" + pw + "\"] }]\n",
             "endpoints: [{ name: a, url: https://a.example/, signing: none, proxy: \"ftp://u:" + pw + "@p\" }]\n",
             "log: { level: " + pw + " }\nrelay: { lease: " + pw + ", max_in_flight: " + pw + ", notify: " + pw + " }\n",
         }) {
        CAPTURE(text);
        const auto result = load(text);
        CHECK_FALSE(result.value);
        CHECK(errors(result) >= 1);
        CHECK_THAT(all_text(result), !Contains(pw));
    }
}

TEST_CASE("environment: a variable of ours that nothing reads is a warning with a near match", "[config][B59]") {
    const auto problems = config::unknown_variables({"OUTBOXD_DATABASE_URL", "OUTBOXD_DATABSE_URL", "OUTBOXD_BILLING", "OUTBOXD_X"}, {"OUTBOXD_BILLING"});
    REQUIRE(problems.size() == 2);
    CHECK(problems[0].to_string() == "environment: warning: OUTBOXD_DATABSE_URL: nothing reads this variable (did you mean `OUTBOXD_DATABASE_URL`?)");
    CHECK(problems[1].key == "OUTBOXD_X");
}
