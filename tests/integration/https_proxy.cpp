// Through a CONNECT proxy: credentials, refusals, what the address policy still sees.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/encoding.hpp"
#include "https/proxy.hpp"
#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

namespace {

std::shared_ptr<ports::route> through(const std::string& url, const std::string& proxy, ports::tls_profile tls = {}) {
    auto route = std::make_shared<ports::route>(*https_bench::route(url, std::move(tls)));
    route->proxy = base::secret(proxy);
    return route;
}

std::string proxy_url(const raw_receiver& proxy, const std::string& login = "") {
    return "http://" + login + "127.0.0.1:" + std::to_string(proxy.port());
}

// Both directions between the tunnel and a port of this host, until one side ends.
void pipe_to(raw_connection& c, int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        std::thread back([&c, fd] {
            char buffer[4096];
            for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
                if (!c.write({buffer, static_cast<std::size_t>(got)})) break;
        });
        for (std::string bytes; !(bytes = c.read_some()).empty();)
            if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
        ::shutdown(fd, SHUT_RDWR);
        back.join();
    }
    ::close(fd);
}

// A proxy that agrees and then is the receiver itself.
raw_receiver::script agree() {
    return [](raw_connection& c) {
        if (!c.read_request()) return;
        c.write("HTTP/1.0 200 Connection established\r\n\r\n");
        while (c.read_request()) c.answer(200, "behind");
    };
}

}  // namespace

TEST_CASE("a request goes through the tunnel, with credentials, and the tunnel is kept") {
    raw_receiver proxy(agree());
    https_bench bench;
    const auto route = through("http://far.example.test:8080/hook?x=1", proxy_url(proxy, "us%40er:p%3Aw@"));
    const auto reply = bench.send(route, "hello");
    INFO(reply.error);
    CHECK(reply.status == 200);
    CHECK(reply.excerpt == "behind");
    CHECK(bench.send(route).reused);
    const auto requests = proxy.requests();
    REQUIRE(requests.size() == 3);
    CHECK(requests[0].method() == "CONNECT");
    CHECK(requests[0].target() == "far.example.test:8080");
    CHECK(requests[0].header("host") == std::optional<std::string>("far.example.test:8080"));
    CHECK(requests[0].header("proxy-authorization") == std::optional<std::string>("Basic " + base::base64_encode("us@er:p:w")));
    CHECK(requests[1].target() == "/hook?x=1");
    CHECK_FALSE(requests[1].header("proxy-authorization").has_value());
    CHECK(requests[1].body == "hello");
}

TEST_CASE("TLS goes through the tunnel to the receiver, whose certificate is checked") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    for (const bool right : {true, false}) {
        raw_receiver_options options;
        options.tls = right ? root.for_localhost() : root.wrong_name();
        raw_receiver receiver(answer_always(200), options);
        raw_receiver proxy([&](raw_connection& c) {
            if (!c.read_request()) return;
            c.write("HTTP/1.1 200 OK\r\n\r\n");
            pipe_to(c, receiver.port());
        });
        https_bench bench;
        const auto reply = bench.send(through("https://localhost:" + std::to_string(receiver.port()) + "/", proxy_url(proxy), profile));
        INFO(reply.error);
        if (right)
            CHECK(reply.status == 200);
        else
            CHECK(reply.error_class == error_class::tls);
    }
}

TEST_CASE("faults of the proxy are class proxy, faults of the receiver behind it are not, and no secret is told") {
    struct row {
        const char* name;
        std::string answer;
        error_class fault;
        const char* text;
    };
    const std::vector<row> rows = {
        {"credentials refused", "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", error_class::proxy, "refuses the credentials (407)"},
        {"forbidden", "HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!", error_class::proxy, "answered 403 to CONNECT far.example.test:443"},
        {"receiver not reached", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", error_class::connect,
         "could not reach far.example.test:443 (503)"},
        {"gateway timeout", "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n", error_class::connect, "could not reach"},
        {"nonsense", "hello\r\n\r\n", error_class::proxy, "no valid answer"},
        {"closed", "", error_class::proxy, "no valid answer"},
        {"speaks before TLS begins", "HTTP/1.1 200 OK\r\n\r\ngarbage", error_class::proxy, ""},
    };
    for (const row& one : rows) {
        raw_receiver proxy([one](raw_connection& c) {
            c.read_request();
            c.write(one.answer);
            if (one.answer.empty()) return c.close();
            c.wait_for_peer_close(5s);
        });
        https_bench bench;
        const auto reply = bench.send(through("https://far.example.test/", proxy_url(proxy, "user:hunter2@")));
        INFO(one.name << ": " << reply.error);
        CHECK(reply.error_class == one.fault);
        CHECK_THAT(reply.error, Catch::Matchers::Contains(one.text));
        CHECK_THAT(reply.error, !Catch::Matchers::Contains("hunter2") && !Catch::Matchers::Contains("127.0.0.1"));
        CHECK_FALSE(reply.complete);
    }
}

TEST_CASE("a proxy that is not there is class proxy") {
    https_bench bench;
    auto reply = bench.send(through("https://far.example.test/", "http://127.0.0.1:" + std::to_string(refused_port())));
    CHECK(reply.error_class == error_class::proxy);
    CHECK(reply.error == "the connection to the proxy failed: refused");
    reply = bench.send(through("https://far.example.test/", "socks5://127.0.0.1:1080"));
    CHECK(reply.error_class == error_class::proxy);
    const black_hole hole;
    auto slow = through("https://far.example.test/", "http://127.0.0.1:" + std::to_string(hole.port()));
    slow->connect_timeout = 400ms;
    reply = bench.send(slow);
    CHECK(reply.error_class == error_class::proxy);
    CHECK(reply.error == "timed out after 400ms while connecting to the proxy");
}

TEST_CASE("a proxy that never answers CONNECT ends at the connect timeout") {
    raw_receiver proxy(hang_after_request());
    https_bench bench;
    auto route = through("https://far.example.test/", proxy_url(proxy));
    route->connect_timeout = 400ms;
    const auto reply = bench.send(route);
    CHECK(reply.error_class == error_class::timeout);
    CHECK(reply.error == "timed out after 400ms while waiting for the proxy's answer");
}

TEST_CASE("the address policy judges names and literal addresses behind a proxy too") {
    raw_receiver proxy(agree());
    auto options = open_options();
    options.policy.deny = {*wire::parse_egress_rule("*.evil.test")};
    options.look_up = [](const std::string& host) {
        if (host == "inside.example.test") return https::host_addresses{{*wire::parse_ip("10.0.0.7")}, ""};
        return https::host_addresses{{}, "no such host"};
    };
    https_bench bench(options);
    for (const char* host : {"127.0.0.1", "[::ffff:169.254.169.254]", "a.evil.test", "localhost", "inside.example.test"}) {
        auto route = through("http://" + std::string(host) + "/", proxy_url(proxy));
        route->trusted = false;
        INFO(host);
        CHECK(bench.send(route).error_class == error_class::blocked);
    }
    CHECK(proxy.connections() == 0);
    auto unknown_here = through("http://only-the-proxy-knows.example.test/", proxy_url(proxy));
    unknown_here->trusted = false;
    CHECK(bench.send(unknown_here).status == 200);
}

TEST_CASE("no_proxy goes past the proxy") {
    raw_receiver receiver(answer_always(200));
    raw_receiver proxy(agree());
    struct row {
        const char* entry;
        const char* host;
        bool past;
    };
    for (const row one : {row{"127.0.0.0/8", "127.0.0.1", true}, row{"127.0.0.1", "127.0.0.1", true}, row{"localhost", "localhost", true},
                          row{"10.0.0.0/8", "127.0.0.1", false}, row{"*", "localhost", true}, row{"localhost:1", "localhost", false}}) {
        auto options = open_options();
        options.no_proxy = {one.entry};
        https_bench bench(options);
        const int before = receiver.connections();
        const auto reply = bench.send(through("http://" + std::string(one.host) + ":" + std::to_string(receiver.port()) + "/", proxy_url(proxy)));
        INFO(one.entry << " " << one.host << " " << reply.error);
        CHECK(reply.status == 200);
        CHECK((receiver.connections() > before) == one.past);
    }
}

TEST_CASE("names in no_proxy cover what is below them") {
    const auto past = [](const char* entry, const char* url) { return https::goes_past_proxy({entry}, *wire::parse_url(url)); };
    CHECK(past("example.test", "https://example.test/"));
    CHECK(past("example.test", "https://a.example.test/"));
    CHECK(past(".example.test", "https://a.example.test/"));
    CHECK(past("*.example.test", "https://a.example.test/"));
    CHECK_FALSE(past("example.test", "https://badexample.test/"));
    CHECK(past("example.test:8443", "https://example.test:8443/"));
    CHECK_FALSE(past("example.test:8443", "https://example.test/"));
    CHECK(past("::1", "http://[::1]/"));
    CHECK_FALSE(past("", "https://example.test/"));
}

TEST_CASE("a proxy's URL is read by the rules, or refused without being repeated") {
    const auto good = https::parse_proxy("http://u:p@[::1]:8080/");
    REQUIRE(good.has_value());
    CHECK(good->host == "::1");
    CHECK(good->port == 8080);
    CHECK(https::parse_proxy("proxy.test")->port == 3128);
    CHECK(https::parse_proxy("http://proxy.test:80")->port == 80);
    for (const char* bad : {"https://proxy.test:1", "http://", "http://user:hunter2@", "http://hunter2%zz@proxy.test", "http://a b/"}) {
        const auto refused = https::parse_proxy(bad);
        INFO(bad);
        REQUIRE(refused.has_error());
        CHECK(refused.error().text.find("hunter2") == std::string::npos);
    }
}
