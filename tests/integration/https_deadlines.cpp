// The total deadline covers every phase and names it. Case B30.
#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

namespace {

constexpr auto limit = 700ms;

struct slow_case {
    const char* name;
    raw_receiver::script script;
    bool tls;
    bool handshake;
    std::size_t body;
    bool complete;
    const char* text;
};

std::vector<slow_case> slow_cases() {
    const auto hold = [](raw_connection& c) { c.wait(60s); };
    return {
        {"accepts and says nothing", hang_after_request(), false, true, 2, false, "timed out after 700ms while waiting for the answer header"},
        {"one header byte at a time",
         [](raw_connection& c) {
             c.read_request();
             c.drip("HTTP/1.1 200 OK\r\nX-Slow: 1\r\nContent-Length: 0\r\n\r\n" + std::string(1000, ' '), 50ms);
         },
         false, true, 2, false, "timed out after 700ms while waiting for the answer header"},
        {"one body byte at a time",
         [](raw_connection& c) {
             c.read_request();
             c.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
             c.drip(std::string(1000, 'x'), 50ms);
         },
         false, true, 2, true, "timed out after 700ms while reading the answer body"},
        {"endless chunks",
         [](raw_connection& c) {
             c.read_request();
             c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
             while (c.write("1\r\nx\r\n") && c.wait(20ms)) {
             }
         },
         false, true, 2, true, "timed out after 700ms while reading the answer body"},
        {"never answers the TLS hello", hold, true, false, 2, false, "timed out after 700ms while waiting for the TLS handshake"},
        {"never reads the request", hold, false, true, 20 << 20, false, "timed out after 700ms while sending the request"},
        {"never reads the request, TLS", hold, true, true, 20 << 20, false, "timed out after 700ms while sending the request"},
        {"endless interim answers",
         [](raw_connection& c) {
             c.read_request();
             while (c.write("HTTP/1.1 102 Processing\r\n\r\n") && c.wait(200ms)) {
             }
         },
         false, true, 2, false, "timed out after 700ms while waiting for the answer header"},
    };
}

}  // namespace

TEST_CASE("a slow receiver ends at the deadline, in the phase that took the time (B30)") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    for (const slow_case& one : slow_cases()) {
        raw_receiver_options options;
        if (one.tls) options.tls = root.for_localhost();
        options.handshake = one.handshake;
        raw_receiver receiver(one.script, options);
        https_bench bench;
        const auto begun = std::chrono::steady_clock::now();
        const auto reply = bench.send(https_bench::route(receiver.url(), profile), std::string(one.body, 'b'), limit);
        INFO(one.name << ": " << reply.error);
        CHECK(seconds_since(begun) > 0.65);
        CHECK(seconds_since(begun) < 6);  // generous: the machine may be busy
        CHECK(reply.complete == one.complete);
        CHECK(reply.error_class == (one.complete ? error_class::none : error_class::timeout));
        CHECK(reply.error == one.text);
        CHECK_FALSE(reply.own_fault);
        receiver.stop();
    }
}

TEST_CASE("a receiver that accepts no connection ends at the connect timeout") {
    const black_hole hole;
    https_bench bench;
    auto route = std::make_shared<ports::route>(*https_bench::route("http://127.0.0.1:" + std::to_string(hole.port()) + "/"));
    route->connect_timeout = 500ms;
    const auto begun = std::chrono::steady_clock::now();
    const auto reply = bench.send(route);
    CHECK(seconds_since(begun) < 6);
    CHECK(reply.error_class == error_class::timeout);
    CHECK(reply.error == "timed out after 500ms while connecting to 127.0.0.1:" + std::to_string(hole.port()));
}

TEST_CASE("a deadline that has passed sends nothing") {
    raw_receiver receiver(answer_always(200));
    https_bench bench;
    const auto reply = bench.send(https_bench::route(receiver.url()), "{}", -1ms);
    CHECK(reply.error_class == error_class::timeout);
    CHECK(receiver.connections() == 0);
}

TEST_CASE("one slow receiver does not hold up another") {
    raw_receiver slow(hang_after_request());
    raw_receiver quick(answer_always(200));
    https_bench bench;
    const auto to_slow = https_bench::route(slow.url());
    const auto to_quick = https_bench::route(quick.url());
    for (int i = 0; i < 50; ++i) bench.begin(to_slow, "{}", 300s);
    for (int i = 0; i < 50; ++i) bench.begin(to_quick);
    REQUIRE(bench.run_until([&] { return bench.open == 50; }));
    for (int i = 50; i < 100; ++i) CHECK(bench.replies[static_cast<std::size_t>(i)].status == 200);
    bench.sender->abort();
    bench.run_until_replies();
}
