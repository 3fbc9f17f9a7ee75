// Where a connection may go and how it gets there: address policy, lookup, several addresses. Cases B32, B40.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "https/connect_race.hpp"
#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

namespace {

wire::ip_address ip(const char* text) {
    return *wire::parse_ip(text);
}

https::sender_options names(std::vector<const char*> addresses) {
    auto options = open_options();
    options.look_up = [addresses](const std::string&) {
        https::host_addresses found;
        for (const char* one : addresses) found.addresses.push_back(ip(one));
        return found;
    };
    return options;
}

// A lookup that hangs for some names until it is let go.
struct gate {
    std::mutex guard;
    std::condition_variable change;
    bool open{false};
    std::atomic<int> waiting{0};
    std::atomic<int> asked{0};
    void wait() {
        std::unique_lock lock(guard);
        ++waiting;
        change.wait(lock, [&] { return open; });
        --waiting;
    }
    void let_go() {
        const std::lock_guard lock(guard);
        open = true;
        change.notify_all();
    }
};

}  // namespace

TEST_CASE("addresses that are not public are refused before anything is sent, with the name of the rule (B40)") {
    raw_receiver receiver(answer_always(200));
    const std::string port = ":" + std::to_string(receiver.port()) + "/";
    struct row {
        const char* host;
        const char* reason;
    };
    const std::vector<row> rows = {
        {"127.0.0.1", "loopback"},
        {"[::1]", "loopback"},
        {"[::ffff:127.0.0.1]", "loopback"},
        {"[::ffff:7f00:1]", "loopback"},
        {"[64:ff9b::7f00:1]", "loopback"},
        {"[0:0:0:0:0:ffff:a9fe:a9fe]", "metadata"},
        {"[2002:7f00:1::]", ""},
        {"[::127.0.0.1]", ""},
        {"[fd00::1]", "unique-local"},
        {"[fe81::1]", "link-local"},
        {"[::]", "unspecified"},
        {"0.0.0.0", "unspecified"},
        {"100.64.0.1", "cgnat"},
        {"169.254.169.254", "metadata"},
        {"localhost", ""},
        {"LOCALHOST.", ""},
    };
    for (const row& one : rows) {
        https_bench bench;
        auto route = std::make_shared<ports::route>(*https_bench::route("http://" + std::string(one.host) + port));
        route->trusted = false;
        const auto reply = bench.send(route);
        INFO(one.host << ": " << reply.error);
        CHECK(reply.error_class == error_class::blocked);
        CHECK_THAT(reply.error, Catch::Matchers::Contains(one.reason));
        CHECK_FALSE(reply.own_fault);
    }
    CHECK(receiver.connections() == 0);
}

TEST_CASE("one bad address among several fails the attempt, and the address is not told (B40)") {
    for (const auto& addresses :
         std::vector<std::vector<const char*>>{{"93.184.216.34", "10.1.2.3"}, {"10.1.2.3"}, {"2606:2800:220:1::1", "::ffff:10.1.2.3"}}) {
        https_bench bench(names(addresses));
        auto route = std::make_shared<ports::route>(*https_bench::route("https://mixed.example.test/"));
        route->trusted = false;
        const auto reply = bench.send(route);
        CHECK(reply.error_class == error_class::blocked);
        CHECK_THAT(reply.error, Catch::Matchers::Contains("private") && Catch::Matchers::Contains("mixed.example.test:443"));
        CHECK_THAT(reply.error, !Catch::Matchers::Contains("10.1.2.3"));
        CHECK(reply.phases.connect == -1);
    }
}

TEST_CASE("plain http needs allow_http, an allowed network opens, a reload closes again") {
    raw_receiver receiver(answer_always(200));
    auto options = open_options();
    options.policy.allow = {*wire::parse_egress_rule("127.0.0.0/8")};
    https_bench bench(options);
    auto route = std::make_shared<ports::route>(*https_bench::route("http://127.0.0.1:" + std::to_string(receiver.port()) + "/"));
    route->trusted = false;
    CHECK(bench.send(route).status == 200);
    bench.sender->replace_policy({}, true, {});
    CHECK(bench.send(route).error_class == error_class::blocked);  // although a connection was open
    bench.sender->replace_policy(options.policy, false, {});
    const auto reply = bench.send(route);
    CHECK(reply.error_class == error_class::blocked);
    CHECK_THAT(reply.error, Catch::Matchers::Contains("allow_http"));
}

TEST_CASE("the order of attempts: families in turn, the last winner first") {
    using https::in_order_of_attempts;
    const std::vector<wire::ip_address> mixed = {ip("::1"), ip("::2"), ip("::3"), ip("10.0.0.1")};
    CHECK(in_order_of_attempts(mixed, {}) == std::vector<wire::ip_address>{ip("::1"), ip("10.0.0.1"), ip("::2"), ip("::3")});
    CHECK(in_order_of_attempts(mixed, ip("::3")) == std::vector<wire::ip_address>{ip("::3"), ip("::1"), ip("10.0.0.1"), ip("::2")});
    CHECK(in_order_of_attempts(mixed, ip("10.9.9.9")).front() == ip("::1"));
    CHECK(in_order_of_attempts({}, {}).empty());
}

TEST_CASE("a first address that swallows or refuses connections costs a moment, and is remembered (B32)") {
    struct row {
        const char* name;
        std::vector<const char*> addresses;
        double at_most;
    };
    // The hole has the port on ::1, the receiver the same port on 127.0.0.1; the addresses beside it refuse.
    const black_hole hole(true);
    raw_receiver_options options;
    options.port = hole.port();
    raw_receiver receiver(
        [](raw_connection& c) {
            c.read_request();
            c.answer(200, "", "Connection: close\r\n");
        },
        options);
    const std::vector<row> rows = {
        {"first drops", {"::1", "127.0.0.1"}, 4},
        {"first refuses", {"127.0.0.2", "127.0.0.1"}, 4},
        {"ten refuse and one lives",
         {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9", "127.0.0.10", "127.0.0.11", "127.0.0.1"},
         4},
        {"one drops, one refuses, one lives", {"::1", "127.0.0.2", "127.0.0.1"}, 4},
    };
    for (const row& one : rows) {
        https_bench bench(names(one.addresses));
        const auto route = https_bench::route("http://dual.example.test:" + std::to_string(receiver.port()) + "/");
        const auto begun = std::chrono::steady_clock::now();
        const auto reply = bench.send(route);
        INFO(one.name << ": " << reply.error);
        CHECK(reply.status == 200);
        CHECK(seconds_since(begun) < one.at_most);
        const auto again = bench.send(route);
        CHECK(again.status == 200);
        CHECK_FALSE(again.reused);
        CHECK(again.phases.connect < 240);  // no turn of a dead address before it
    }
}

TEST_CASE("when every address fails the error says how, without the addresses") {
    const int port = refused_port();
    https_bench bench(names({"127.0.0.1", "127.0.0.2"}));
    const auto reply = bench.send(https_bench::route("http://dead.example.test:" + std::to_string(port) + "/"));
    CHECK(reply.error_class == error_class::connect);
    CHECK(reply.error == "the connection to dead.example.test:" + std::to_string(port) + " failed: refused");
    CHECK_FALSE(reply.own_fault);
}

TEST_CASE("a name that does not exist is class dns and remembered for a moment") {
    auto options = open_options();
    auto asked = std::make_shared<std::atomic<int>>(0);
    options.dns_negative = 300ms;
    options.look_up = [asked](const std::string&) {
        ++*asked;
        return https::host_addresses{};
    };
    https_bench bench(options);
    const auto route = https_bench::route("https://nowhere.example.test/");
    const auto reply = bench.send(route);
    CHECK(reply.error_class == error_class::dns);
    CHECK(reply.error == "looking up nowhere.example.test failed: no such host");
    CHECK_FALSE(reply.own_fault);
    CHECK(bench.send(route).error_class == error_class::dns);
    CHECK(*asked == 1);
    CHECK(bench.run_until([&] { return bench.send(route).error_class == error_class::dns && *asked == 2; }, 5s));
}

TEST_CASE("the system's resolver finds localhost and misses .invalid") {
    raw_receiver receiver(answer_always(200));
    https_bench bench;
    const auto reply = bench.send(https_bench::route("http://localhost:" + std::to_string(receiver.port()) + "/"));
    CHECK(reply.status == 200);
    CHECK(reply.phases.dns >= 0);
    const auto missed = bench.send(https_bench::route("http://no-such-name.invalid/"));
    INFO(missed.error);
    CHECK((missed.error_class == error_class::dns || missed.error_class == error_class::timeout));
}

TEST_CASE("many sends to one name share one lookup") {
    raw_receiver receiver(answer_always(200));
    auto options = open_options();
    const auto held = std::make_shared<gate>();
    options.look_up = [held](const std::string&) {
        ++held->asked;
        held->wait();
        return https::host_addresses{{ip("127.0.0.1")}, ""};
    };
    https_bench bench(options);
    const auto route = https_bench::route("http://shared.example.test:" + std::to_string(receiver.port()) + "/");
    for (int i = 0; i < 20; ++i) bench.begin(route);
    REQUIRE(bench.run_until([&] { return held->waiting == 1; }));
    held->let_go();
    bench.run_until_replies();
    for (const auto& reply : bench.replies) CHECK(reply.status == 200);
    CHECK(held->asked == 1);
}

TEST_CASE("a hanging resolver delays its own hosts only, and never the stop") {
    raw_receiver receiver(answer_always(200));
    auto options = open_options();
    options.resolver_threads = 4;
    options.lookup_timeout = 400ms;
    const auto held = std::make_shared<gate>();
    options.look_up = [held](const std::string& host) {
        if (host.ends_with("hang.test")) held->wait();
        return https::host_addresses{{ip("127.0.0.1")}, ""};
    };
    const std::string port = ":" + std::to_string(receiver.port()) + "/";
    {
        https_bench bench(options);
        for (const char* host : {"a.hang.test", "b.hang.test", "a.hang.test"}) bench.begin(https_bench::route("http://" + std::string(host) + port));
        REQUIRE(bench.run_until([&] { return held->waiting == 2; }));
        bench.begin(https_bench::route("http://fine.example.test" + port));
        bench.run_until_replies();
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(bench.replies[i].error_class == error_class::timeout);
            CHECK_THAT(bench.replies[i].error, Catch::Matchers::StartsWith("timed out after 400ms while looking up"));
        }
        CHECK(bench.replies[3].status == 200);
        const auto begun = std::chrono::steady_clock::now();
        bench.finish();
        CHECK(seconds_since(begun) < 1);
        CHECK(held->waiting == 2);
    }
    held->let_go();
    // The threads left behind end by themselves; they hold `held`, not the sender.
    for (int i = 0; i < 1000 && held.use_count() > 2; ++i) std::this_thread::sleep_for(5ms);
    CHECK(held.use_count() == 2);
}

TEST_CASE("names below a slow domain take half of the threads at most") {
    raw_receiver receiver(answer_always(200));
    auto options = open_options();
    options.resolver_threads = 2;
    options.lookup_timeout = 3s;
    const auto held = std::make_shared<gate>();
    const auto slow = std::make_shared<std::atomic<bool>>(true);
    options.look_up = [held, slow](const std::string& host) {
        if (host.ends_with("hang.test")) {
            if (slow->exchange(false))
                std::this_thread::sleep_for(1100ms);  // marks the domain
            else
                held->wait();
        }
        return https::host_addresses{{ip("127.0.0.1")}, ""};
    };
    const std::string port = ":" + std::to_string(receiver.port()) + "/";
    https_bench bench(options);
    CHECK(bench.send(https_bench::route("http://first.hang.test" + port)).status == 200);
    for (const char* host : {"a.hang.test", "b.hang.test", "c.hang.test"}) bench.begin(https_bench::route("http://" + std::string(host) + port));
    REQUIRE(bench.run_until([&] { return held->waiting == 1; }));
    bench.begin(https_bench::route("http://fine.example.test" + port));
    REQUIRE(bench.run_until([&] { return bench.replies.back().status == 200; }, 2s));
    CHECK(held->waiting == 1);
    held->let_go();
    bench.run_until_replies();
    for (const auto& reply : bench.replies) CHECK(reply.status == 200);
}
