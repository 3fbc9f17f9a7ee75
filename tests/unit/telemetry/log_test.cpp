// Role: what a log line looks like, and that a reader who stands still holds up nobody.
// Promise: stderr is a pipe of the test's own while lines are taken.
#include "telemetry/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "base/encoding.hpp"
#include "support/catch.hpp"

using namespace outboxd;
using telemetry::level;
using Catch::Matchers::Contains;

namespace {

// Takes stderr while it lives.
class stderr_pipe {
public:
    stderr_pipe() {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        read_ = ends[0];
        saved_ = ::dup(STDERR_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[1]);
        ::fcntl(read_, F_SETFL, O_NONBLOCK);
    }
    ~stderr_pipe() {
        ::dup2(saved_, STDERR_FILENO);
        ::close(saved_);
        ::close(read_);
    }
    stderr_pipe(const stderr_pipe&) = delete;
    stderr_pipe& operator=(const stderr_pipe&) = delete;
    std::string taken() const {
        std::string out;
        std::vector<char> buffer(65536);
        for (ssize_t n = ::read(read_, buffer.data(), buffer.size()); n > 0; n = ::read(read_, buffer.data(), buffer.size())) out.append(buffer.data(), static_cast<std::size_t>(n));
        return out;
    }

private:
    int read_{-1};
    int saved_{-1};
};

std::string every_byte() {
    std::string out;
    for (int c = 0; c < 256; ++c) out += static_cast<char>(c);
    return out;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        out.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

}  // namespace

TEST_CASE("log: a JSON line keeps numbers, booleans and any bytes as one valid object", "[log]") {
    const stderr_pipe pipe;
    telemetry::init_log("info", "json");
    telemetry::log(level::info, "attempt", "sent", {{"n", std::int64_t{-5}}, {"d", 0.25}, {"yes", true}, {"bytes", every_byte()}, {"inf", std::numeric_limits<double>::infinity()}, {"q\"", std::string_view("a\\b")}});
    telemetry::log(level::debug, "attempt", "not at this level");
    telemetry::log(level::error, "long", std::string(1'000'000, '"'));
    const auto lines = lines_of(pipe.taken());
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].rfind("{\"time\":\"20", 0) == 0);
    CHECK_THAT(lines[0], Contains("Z\",\"level\":\"info\",\"event\":\"attempt\",\"text\":\"sent\",\"n\":-5,\"d\":0.25,\"yes\":true,\"bytes\":\""));
    CHECK_THAT(lines[0], Contains(",\"inf\":null,\"q\\\"\":\"a\\\\b\"}"));
    CHECK(base::is_valid_utf8(lines[0]));
    CHECK(std::none_of(lines[0].begin(), lines[0].end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
    // The long one is cut, and still closed.
    CHECK(lines[1].size() < 10'000);
    CHECK_THAT(lines[1], Catch::Matchers::EndsWith("\\\"\"}"));
}

TEST_CASE("log: a text line is one line whatever is in it", "[log]") {
    const stderr_pipe pipe;
    telemetry::init_log("debug", "text");
    CHECK(telemetry::enabled(level::debug));
    CHECK_FALSE(telemetry::enabled(level::trace));
    telemetry::log(level::warn, "circuit", "opened", {{"endpoint", std::string_view("billing")}, {"error", std::string_view("a b\n=\"c\"")}, {"empty", std::string_view("")}, {"n", std::int64_t{3}}});
    const auto lines = lines_of(pipe.taken());
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Contains(" warn event=circuit text=opened endpoint=billing error=\"a b\\n=\\\"c\\\"\" empty=\"\" n=3"));
}

TEST_CASE("log: a repeated line passes once a second and then tells how many did not", "[log]") {
    const stderr_pipe pipe;
    telemetry::init_log("info", "json");
    std::string seen;
    int said = 0;
    const auto start = std::chrono::steady_clock::now();
    // Until a second line has passed: the clock decides, the test only waits for it.
    while (seen.find("suppressed") == std::string::npos && std::chrono::steady_clock::now() - start < std::chrono::seconds{20}) {
        telemetry::log_limited(level::warn, "database_down", "claim", "no connection");
        telemetry::log_limited(level::warn, "other", "x", "another event has its own second");
        ++said;
        ::usleep(1000);
        seen += pipe.taken();
    }
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::seconds{1});
    CHECK_THAT(seen, Contains("\"suppressed\":" + std::to_string(said - 2)));
}

TEST_CASE("log: thousands of different keys within a second stay bounded", "[log]") {
    const stderr_pipe pipe;
    telemetry::init_log("info", "json");
    std::size_t passed = 0;
    for (int i = 0; i < 20'000; ++i) {
        telemetry::log_limited(level::warn, "many", std::to_string(i), "x");
        if (i % 100 == 0) passed += lines_of(pipe.taken()).size();
    }
    passed += lines_of(pipe.taken()).size();
    CHECK(passed < 10'000);
}

TEST_CASE("log: a reader who stands still costs at most one short wait, and lost lines are told", "[log]") {
    const stderr_pipe pipe;
    telemetry::init_log("info", "json");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 5000; ++i) telemetry::log(level::info, "flood", std::string(100, 'x'));  // a pipe holds 64 KiB
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{2});
    const auto before = lines_of(pipe.taken());
    telemetry::log(level::info, "after", "reader moved");
    const auto after = lines_of(pipe.taken());
    REQUIRE(after.size() == 2);
    CHECK_THAT(after[0], Contains("log_lines_lost") && Contains("\"lost\":" + std::to_string(5000 - before.size())));
    CHECK_THAT(after[1], Contains("reader moved"));
}

TEST_CASE("log: what one line costs", "[.][bench]") {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int saved = ::dup(STDERR_FILENO);
    ::dup2(null, STDERR_FILENO);
    telemetry::init_log("info", "json");
    constexpr int rounds = 200'000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
        telemetry::log(level::info, "attempt", "", {{"delivery", std::int64_t{i}}, {"event_id", std::string_view("0b9f3f0e-54e3-4a34-8d0f-8d8f5d0d4b5e")}, {"endpoint", std::string_view("billing")}, {"outcome", std::string_view("published")}, {"status", std::int64_t{200}}, {"ms", 1.25}});
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    ::close(null);
    WARN("log line of six fields: " << took.count() / rounds << " us");
    SUCCEED();
}
