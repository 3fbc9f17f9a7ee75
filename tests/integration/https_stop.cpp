// Ends: abort, close, destruction under way, shortage of descriptors, many at once.
#include <sys/resource.h>

#include <functional>
#include <thread>

#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

TEST_CASE("abort ends what is on the wire, in every phase, as our own fault") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    raw_receiver silent(hang_after_request());
    raw_receiver_options options;
    options.tls = root.for_localhost();
    options.handshake = false;
    raw_receiver no_hello([](raw_connection& c) { c.wait(60s); }, options);
    const black_hole hole;
    auto mine = open_options();
    mine.look_up = [](const std::string& host) {
        if (host == "slow.example.test") std::this_thread::sleep_for(300ms);
        return https::host_addresses{{*wire::parse_ip("127.0.0.1")}, ""};
    };
    https_bench bench(mine);
    bench.begin(https_bench::route(silent.url()));
    bench.begin(https_bench::route(no_hello.url(), profile));
    bench.begin(https_bench::route("http://127.0.0.1:" + std::to_string(hole.port()) + "/"));
    bench.begin(https_bench::route("http://slow.example.test:1/"));
    REQUIRE(bench.run_until([&] { return silent.requests().size() == 1 && no_hello.connections() == 1; }));
    CHECK(bench.open == 4);
    const auto begun = std::chrono::steady_clock::now();
    bench.sender->abort();
    bench.run_until_replies();
    CHECK(seconds_since(begun) < 4);  // the timeouts are longer
    for (const auto& reply : bench.replies) {
        CHECK_FALSE(reply.complete);
        CHECK(reply.own_fault);
        CHECK(reply.error_class == error_class::local);
        CHECK_FALSE(reply.error.empty());
    }
    raw_receiver receiver(answer_always(200));
    CHECK(bench.send(https_bench::route(receiver.url())).status == 200);  // abort is no close
}

TEST_CASE("an answer whose header had come survives an abort") {
    raw_receiver receiver([](raw_connection& c) {
        c.read_request();
        c.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        c.wait_for_gate();
    });
    https_bench bench;
    bench.begin(https_bench::route(receiver.url()));
    REQUIRE(bench.run_until([&] { return receiver.requests().size() == 1; }));
    // The answer is written right after the request was read: a moment of the loop brings it in.
    bench.run_until([] { return false; }, 200ms);
    bench.sender->abort();
    bench.run_until_replies();
    CHECK(bench.replies[0].complete);
    CHECK(bench.replies[0].status == 200);
    CHECK_FALSE(bench.replies[0].error.empty());
}

TEST_CASE("close lets sends finish, takes no more, and leaves nothing behind") {
    raw_receiver receiver([](raw_connection& c) {
        while (c.read_request()) {
            if (!c.wait_for_gate()) return;
            c.answer(200);
        }
    });
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    bench.begin(route);
    REQUIRE(bench.run_until([&] { return receiver.requests().size() == 1; }));
    bench.sender->close();
    const auto refused = [&] {
        bench.begin(route);
        bench.run_until([&] { return bench.open == 1; });
        return bench.replies.back();
    }();
    CHECK(refused.own_fault);
    receiver.open_gate();
    bench.run_until_replies();
    CHECK(bench.replies[0].status == 200);
    CHECK(receiver.wait_for_idle());
    bench.context.restart();
    bench.context.run_for(1s);
    CHECK(bench.context.stopped());
}

TEST_CASE("a sender that goes while sends are under way takes them along") {
    raw_receiver receiver(hang_after_request());
    const black_hole hole;
    https_bench bench;
    bench.begin(https_bench::route(receiver.url()));
    bench.begin(https_bench::route("http://127.0.0.1:" + std::to_string(hole.port()) + "/"));
    REQUIRE(bench.run_until([&] { return receiver.requests().size() == 1; }));
    bench.sender.reset();
    bench.context.restart();
    bench.context.run_for(1s);
    CHECK(bench.context.stopped());
    CHECK(receiver.wait_for_idle());
}

TEST_CASE("without descriptors the fault is our own, and passes with the shortage (B47)") {
    raw_receiver receiver(hang_after_request());
    raw_receiver fine(answer_always(200));
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    // The receiver's side of each connection counts too: room for a few only.
    rlimit few = before;
    few.rlim_cur = 40;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int i = 0; i < 60; ++i) bench.begin(route, "{}", 2s);
    bench.run_until([&] { return bench.open == 0; }, 10s);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    bench.run_until_replies();
    int own = 0;
    for (const auto& reply : bench.replies) {
        INFO(reply.error);
        CHECK_FALSE(reply.complete);
        if (reply.own_fault) {
            ++own;
            CHECK(reply.error_class == error_class::local);
            CHECK_THAT(reply.error, Catch::Matchers::Contains("Too many open files"));
        } else {
            CHECK(reply.error_class == error_class::timeout);
        }
    }
    CHECK(own > 10);
    CHECK(bench.send(https_bench::route(fine.url())).status == 200);
}

TEST_CASE("many sends at once, plain and TLS, all come back and the connections stay bounded") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    for (const bool tls : {false, true}) {
        raw_receiver_options options;
        if (tls) options.tls = root.for_localhost();
        raw_receiver receiver(answer_always(200, "ok"), options);
        https_bench bench;
        const auto route = https_bench::route(receiver.url(), profile);
        for (int round = 0; round < 10; ++round) {
            for (int i = 0; i < 32; ++i) bench.begin(route);
            bench.run_until_replies();
        }
        for (const auto& reply : bench.replies) CHECK(reply.status == 200);
        CHECK(receiver.connections() == 32);
        CHECK(bench.sender->connection_totals().opened == 32);
        CHECK(bench.sender->connection_totals().reused == 288);
    }
}
