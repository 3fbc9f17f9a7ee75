// Kept-alive connections: used again, noticed when dead, never used across routes. Cases B24, B38.
#include <atomic>

#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

TEST_CASE("a connection that the receiver closed while it was idle is not used again (B24 a b)") {
    for (const bool reset : {false, true}) {
        raw_receiver receiver([reset](raw_connection& c) {
            c.read_request();
            c.answer(200);
            c.wait(30ms);
            reset ? c.reset() : c.close();
        });
        https_bench bench;
        const auto route = https_bench::route(receiver.url());
        CHECK(bench.send(route).status == 200);
        CHECK(bench.sender->idle_connections() == 1);
        REQUIRE(bench.run_until([&] { return bench.sender->idle_connections() == 0; }));
        const auto second = bench.send(route);
        CHECK(second.status == 200);
        CHECK_FALSE(second.reused);
        CHECK(receiver.requests().size() == 2);
    }
}

TEST_CASE("a kept connection that ends instead of answering costs one repetition on a new one (B24 c d)") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    for (const bool tls : {false, true})
        for (const bool whole : {false, true})
            for (const bool reset : {false, true}) {
                INFO((tls ? "TLS" : "plain") << (whole ? ", whole request read" : ", first byte read") << (reset ? ", reset" : ", closed"));
                raw_receiver_options options;
                if (tls) options.tls = root.for_localhost();
                raw_receiver receiver(
                    [=](raw_connection& c) {
                        c.read_request();
                        c.answer(200);
                        if (c.number() == 0) {
                            whole ? static_cast<void>(c.read_request()) : static_cast<void>(c.read_some(1));
                            reset ? c.reset() : c.close();
                            return;
                        }
                        while (c.read_request()) c.answer(202);
                    },
                    options);
                https_bench bench;
                const auto route = https_bench::route(receiver.url(), profile);
                CHECK(bench.send(route, "one").status == 200);
                const auto second = bench.send(route, "two");
                INFO(second.error);
                CHECK(second.status == 200);
                CHECK_FALSE(second.reused);
                CHECK(receiver.connections() == 2);
                CHECK(receiver.requests().back().body == "two");
                CHECK(bench.send(route, "three").status == 202);
            }
}

TEST_CASE("a receiver that never answers on any connection fails the attempt after one repetition (B24 d)") {
    raw_receiver receiver([](raw_connection& c) {
        if (c.number() > 0 || (c.read_request() && c.answer(200))) c.read_request();
    });
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    CHECK(bench.send(route).status == 200);
    const auto second = bench.send(route);
    CHECK_FALSE(second.complete);
    CHECK(second.error_class == error_class::connect);
    CHECK(receiver.connections() == 2);
}

TEST_CASE("once a byte of an answer has come there is no repetition") {
    raw_receiver receiver([](raw_connection& c) {
        c.read_request();
        c.answer(200);
        c.read_request();
        c.write("HTTP/1.1 2");
    });
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    CHECK(bench.send(route).status == 200);
    CHECK(bench.send(route).error_class == error_class::protocol);
    CHECK(receiver.connections() == 1);
}

TEST_CASE("bytes that nobody asked for end an idle connection") {
    raw_receiver receiver([](raw_connection& c) {
        c.read_request();
        c.answer(200);
        if (c.number() == 0) {
            c.wait(30ms);
            c.write("HTTP/1.1 500 Leak\r\nContent-Length: 0\r\n\r\n");
        }
        while (c.read_request()) c.answer(200);
    });
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    CHECK(bench.send(route).status == 200);
    REQUIRE(bench.run_until([&] { return bench.sender->idle_connections() == 0; }));
    CHECK(bench.send(route).status == 200);
    CHECK(receiver.connections() == 2);
}

TEST_CASE("idle connections end after the idle time, and sooner when the receiver says so") {
    raw_receiver receiver(answer_always(200));
    auto options = open_options();
    options.idle_timeout = 300ms;
    https_bench bench(options);
    CHECK(bench.send(https_bench::route(receiver.url())).status == 200);
    CHECK(bench.sender->idle_connections() == 1);
    CHECK(bench.run_until([&] { return bench.sender->idle_connections() == 0; }, 5s));
    CHECK(receiver.wait_for_idle(5s));

    struct row {
        const char* field;
        std::size_t kept;
    };
    for (const row one : {row{"Keep-Alive: timeout=1\r\n", 0}, row{"Keep-Alive: timeout=0\r\n", 0}, row{"Keep-Alive: timeout=5, max=100\r\n", 1},
                          row{"Keep-Alive: nonsense\r\n", 1}}) {
        raw_receiver hinting([one](raw_connection& c) {
            while (c.read_request()) c.answer(200, "", one.field);
        });
        https_bench other;
        INFO(one.field);
        CHECK(other.send(https_bench::route(hinting.url())).status == 200);
        CHECK(other.sender->idle_connections() == one.kept);
    }
}

TEST_CASE("idle connections are bounded for a route and in all, the longest idle goes first") {
    raw_receiver a(answer_always(200));
    raw_receiver b(answer_always(200));
    auto options = open_options();
    options.idle_per_route = 4;
    options.idle_in_all = 6;
    https_bench bench(options);
    const auto to_a = https_bench::route(a.url());
    const auto to_b = https_bench::route(b.url());
    for (int i = 0; i < 10; ++i) bench.begin(to_a);
    bench.run_until_replies();
    CHECK(bench.sender->idle_connections() == 4);
    for (int i = 0; i < 10; ++i) bench.begin(to_b);
    bench.run_until_replies();
    CHECK(bench.sender->idle_connections() == 6);
    CHECK(bench.run_until([&] { return a.open_connections() == 2 && b.open_connections() == 4; }));
}

TEST_CASE("connections are shared by equal routes only") {
    raw_receiver receiver(answer_always(200));
    https_bench bench;
    const auto first = https_bench::route(receiver.url("/a"));
    CHECK(bench.send(first).status == 200);
    CHECK(bench.send(https_bench::route(receiver.url("/b?c"))).reused);  // another path, the same receiver
    auto by_name = https_bench::route("http://localhost:" + std::to_string(receiver.port()) + "/");
    CHECK_FALSE(bench.send(by_name).reused);
    CHECK(bench.send(by_name).reused);
    auto distrusted = std::make_shared<ports::route>(*first);
    distrusted->trusted = false;
    CHECK(bench.send(distrusted).error_class == error_class::blocked);  // not by the way of a trusted connection
}

TEST_CASE("a reload ends kept connections, those in use are not kept") {
    raw_receiver receiver([](raw_connection& c) {
        while (c.read_request()) {
            if (!c.wait_for_gate()) return;
            c.answer(200);
        }
    });
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    bench.begin(route);
    REQUIRE(bench.run_until([&] { return !receiver.requests().empty(); }));
    bench.sender->reload();
    receiver.open_gate();
    bench.run_until_replies();
    CHECK(bench.replies[0].status == 200);
    CHECK(bench.sender->idle_connections() == 0);
    CHECK_FALSE(bench.send(route).reused);
    bench.sender->reload();
    CHECK(bench.sender->idle_connections() == 0);
    CHECK_FALSE(bench.send(route).reused);
}

TEST_CASE("a receiver that never says goodbye holds up nobody (B38)") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    raw_receiver_options options;
    options.tls = root.for_localhost();
    raw_receiver receiver(
        [](raw_connection& c) {
            c.read_request();
            c.answer(200, "", "Connection: close\r\n");
            c.wait(300s);
        },
        options);
    https_bench bench;
    const auto route = https_bench::route(receiver.url(), profile);
    const auto begun = std::chrono::steady_clock::now();
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 20; ++i) bench.begin(route, "{}", 120s);
        bench.run_until_replies();
    }
    for (const auto& reply : bench.replies) CHECK(reply.status == 200);
    CHECK(seconds_since(begun) < 100);
    bench.finish();
    CHECK(seconds_since(begun) < 105);
}
