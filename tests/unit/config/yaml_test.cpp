// Role: files that are broken or meant to harm.
// Promise: each is refused within a second, with a line, and without quoting what it holds.
#include <sys/stat.h>

#include <chrono>

#include "config_case.hpp"
#include "support/tls_material.hpp"

using namespace outboxd;
using namespace outboxd::config_test;
using Catch::Matchers::Contains;

namespace {

std::string repeated(const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
}

std::string doubling_aliases() {
    std::string out = "a0: &a0 [x, x]\n";
    for (int i = 1; i < 20; ++i) out += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + "]\n";
    return out;
}

std::string deep_block(int levels) {
    std::string out;
    for (int i = 0; i < levels; ++i) out += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    return out;
}

}  // namespace

TEST_CASE("configuration: hostile and broken YAML is refused quickly with a line", "[config][B56]") {
    struct row {
        std::string text;
        int line;
        const char* says;
    };
    const std::vector<row> table{
        {repeated("[", 100'000), 1, "nested deeper than 64"},
        {"relay: " + repeated("{a: ", 100'000), 1, "nested deeper than 64"},
        {repeated("- ", 100'000) + "\n", 1, "nested deeper than 64"},
        {"x: 'it''s'\ny: " + repeated("[", 4'000'000), 2, "nested deeper than 64"},
        {deep_block(1000), 65, "nested deeper than 64"},
        {repeated("? ", 1000), 1, "nested deeper than 64"},
        {doubling_aliases(), 1, "anchors"},
        {"relay: &r { notify: *r }\n", 1, "anchors"},
        {"relay: *unknown\n", 1, "anchors"},
        {"x: &a {}\n", 1, "anchors"},
        {"defaults: { <<: { timeout: 5s } }\n", 1, "merge keys"},
        {"relay: !!map {}\n", 1, "tags"},
        {"relay: !secret x\n", 1, "tags"},
        {"relay:\n\tlease: 60s\n", 2, "a tab in the indentation"},
        {"relay:\n  lease: 60s\n\n \tnotify: true\n", 4, "a tab in the indentation"},
        {"relay: {}\n---\nrelay: {}\n", 2, "a second document"},
        {"relay: {}\n...\n---\n", 3, "a second document"},
        {std::string("\xff\xfe" "r\0e\0l\0", 8), 1, "UTF-16"},
        {std::string("\0r\0e\0l", 6), 1, "UTF-16"},
        {std::string("relay: {}\nx: a\0b\n", 17), 2, "NUL"},
        {"relay: {}\nx: \xc3\x28\n", 2, "not valid UTF-8"},
        {"relay: {}\nx: a\x01\n", 2, "control character"},
        {"relay: {}\rlog: {}\r", 1, "control character"},
        {"relay: {}\nx: \"unclosed\n", 2, "a quote is left open"},
        {"relay: {}\nx: 'it''s unclosed\n  # ' '\n", 3, "not valid YAML"},
        {"x: \"unclosed \\\"\nrelay: {}\n", 1, "a quote is left open"},
        {"x: 'unclosed", 0, "not valid YAML"},
        {"relay: [1, 2\n", 0, "not valid YAML"},
        {"relay: }\n", 1, "not valid YAML"},
        {"a: b: c\n", 1, "not valid YAML"},
        {"%YAML 9.9\n---\nrelay: {}\n", 0, "not valid YAML"},
        {std::string(5U << 20, '#'), 0, "larger than 4 MiB"},
    };
    for (const row& r : table) {
        CAPTURE(r.text.substr(0, 60));
        const auto start = std::chrono::steady_clock::now();
        const auto result = load(r.text);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        CAPTURE(all_text(result));
        CHECK_FALSE(result.value);
        REQUIRE(errors(result) >= 1);
        if (r.line != 0) CHECK(result.problems[0].line == r.line);
        CHECK_THAT(result.problems[0].text, Contains(r.says));
#ifndef __SANITIZE_ADDRESS__
        CHECK(took.count() < 1.0);
#else
        CHECK(took.count() < 20.0);
#endif
    }
}

TEST_CASE("configuration: byte order mark, CRLF, comments with odd characters are accepted", "[config][B56]") {
    const auto result = load("\xef\xbb\xbf# it's [[[ \"fine\"\r\nrelay:\r\n  lease: 61s\t # tab before a comment\r\n\t\r\nlog: { level: debug }\r\n");
    CHECK(all_text(result).empty());
    REQUIRE(result.value);
    CHECK(result.value->relay.lease == std::chrono::seconds{61});
    CHECK(result.value->log.level == "debug");
    const auto wrong = load("relay:\r\n  lease: 60s\r\n  lese: 60s\r\n");
    REQUIRE(wrong.problems.size() == 1);
    CHECK(wrong.problems[0].line == 3);
}

TEST_CASE("configuration: thousands of problems are cut at a hundred", "[config][B56]") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
    const auto result = load(text);
    REQUIRE(result.problems.size() == 101);
    CHECK(result.problems.back().text == "and 4900 more problems");
}

TEST_CASE("configuration: a path that is no regular readable file is named, without waiting", "[config][B56]") {
    const testkit::temporary_directory directory;
    const auto fifo = directory.path() / "fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    const auto good = directory.write("good.yaml", "relay: { lease: 61s }\n");
    const auto large = directory.write("large.yaml", std::string(5U << 20, '#'));
    struct row {
        std::string path;
        const char* says;
    };
    for (const row& r : std::vector<row>{{directory.path().string(), "is a directory"},
                                         {fifo.string(), "is a FIFO"},
                                         {"/dev/zero", "is a device"},
                                         {large.string(), "larger than 4096 KiB"},
                                         {(directory.path() / "missing.yaml").string(), "No such file"}}) {
        CAPTURE(r.path);
        const auto result = config::load_file(r.path, environment_of({}));
        CHECK_FALSE(result.value);
        REQUIRE(result.problems.size() == 1);
        CHECK(result.problems[0].file == r.path);
        CHECK_THAT(result.problems[0].text, Contains(r.says));
    }
    CHECK(config::load_file("/dev/null", environment_of({})).value);
    const auto result = config::load_file(good.string(), environment_of({}));
    REQUIRE(result.value);
    CHECK(result.value->path == good.string());
    CHECK(result.value->relay.lease == std::chrono::seconds{61});
}
