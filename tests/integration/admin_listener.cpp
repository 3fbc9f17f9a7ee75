// The admin server over real sockets: what it answers, what it refuses, and that nobody can hold it up.
#include "integration/admin_client.hpp"

#include <atomic>

#include "support/catch.hpp"

using namespace admin_test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
namespace admin = outboxd::admin;

namespace {

admin::handlers with_state(std::atomic<bool>& up, std::string reason = "") {
    admin::handlers h;
    h.state = [&up, reason] {
        admin::relay_state s;
        s.database_up = up;
        s.schema_ok = true;
        s.claims_running = true;
        s.reason = reason;
        s.last_claim_age_seconds = 0.5;
        return s;
    };
    h.metrics = [] { return std::string{"outboxd_in_flight 3\n"}; };
    return h;
}

}  // namespace

TEST_CASE("liveness does not depend on the database and readiness does [B66]", "[admin]") {
    std::atomic<bool> up{false};
    running_listener server({}, with_state(up));
    CHECK(get(server.port(), "/healthz").status == 200);
    const auto not_ready = get(server.port(), "/readyz");
    CHECK(not_ready.status == 503);
    CHECK_THAT(not_ready.body, Contains("the database does not answer"));
    up = true;
    const auto ready = get(server.port(), "/readyz");
    CHECK(ready.status == 200);
    CHECK_THAT(ready.body, Contains("\"ready\":true") && Contains("\"last_claim_age_seconds\":0.5"));
    CHECK(get(server.port(), "/healthz").status == 200);
}

TEST_CASE("metrics are the callback's text in the exposition format", "[admin]") {
    std::atomic<bool> up{true};
    running_listener server({}, with_state(up));
    const auto r = get(server.port(), "/metrics");
    CHECK(r.status == 200);
    CHECK_THAT(r.head, Contains("Content-Type: text/plain; version=0.0.4"));
    CHECK(r.body == "outboxd_in_flight 3\n");
}

TEST_CASE("requests that are none of ours are refused by name [B66]", "[admin]") {
    std::atomic<bool> up{true};
    running_listener server({}, with_state(up));
    struct row {
        const char* what;
        std::string bytes;
        int status;
    };
    const row rows[] = {
        {"garbage", "\x16\x03\x01 this is no HTTP\r\n\r\n", 400},
        {"a line without a version", "GET /healthz\r\n\r\n", 400},
        {"header of 20 KiB", "GET /healthz HTTP/1.1\r\nX: " + std::string(20000, 'a') + "\r\n\r\n", 431},
        {"POST", "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 405},
        {"a large body", "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n" + std::string(100000, 'b'), 413},
        {"an unknown path", "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404},
        {"a path above the root", "GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404},
        {"a broken escape", "GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400},
        {"NUL in the path", "GET /api/v1/why/%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400},
    };
    for (const auto& r : rows) {
        CAPTURE(r.what);
        CHECK(converse(server.port(), r.bytes).status == r.status);
    }
    CHECK(get(server.port(), "/healthz").status == 200);
}

TEST_CASE("HEAD has the header of GET and no body", "[admin]") {
    std::atomic<bool> up{true};
    running_listener server({}, with_state(up));
    const auto r = converse(server.port(), "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    CHECK(r.status == 200);
    CHECK_THAT(r.head, Contains("Content-Length: 20"));
    CHECK(r.body.empty());
}

TEST_CASE("a connection serves several requests, those sent at once included", "[admin]") {
    std::atomic<bool> up{true};
    running_listener server({}, with_state(up));
    client c(server.port());
    c.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const auto all = c.read_to_end();
    CHECK_THAT(all, Contains("ok\n") && Contains("outboxd_in_flight 3"));
    CHECK(c.ended());
}

TEST_CASE("silent connections in every place do not keep a scraper waiting for long [B66]", "[admin]") {
    std::atomic<bool> up{true};
    running_listener server({}, with_state(up));
    std::vector<std::unique_ptr<client>> silent;
    // Four queues' worth: those behind the first 64 wait to be accepted.
    for (int i = 0; i < 256; ++i) {
        silent.push_back(std::make_unique<client>(server.port()));
        silent.back()->write("GET /healthz HTTP/1.1\r\nX-Slow: ");
    }
    REQUIRE(server.wait_for_connections(64));
    const auto before = std::chrono::steady_clock::now();
    CHECK(get(server.port(), "/healthz").status == 200);
    // Well under the five seconds after which the silent ones would have gone by themselves.
    CHECK(std::chrono::steady_clock::now() - before < 3s);
}

TEST_CASE("a reader that does not read is dropped at the deadline [B66]", "[admin]") {
    admin::options how;
    how.deadline = 300ms;
    admin::handlers h;
    h.metrics = [] { return std::string(64 << 20, 'm'); };
    running_listener server(how, h);
    client c(server.port());
    c.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    REQUIRE(server.wait_for_connections(1));
    CHECK(server.wait_for_connections(0));
    CHECK(get(server.port(), "/healthz").status == 200);
}

TEST_CASE("a half request is dropped at the deadline", "[admin]") {
    admin::options how;
    how.deadline = 200ms;
    running_listener server(how);
    client c(server.port());
    c.write("GET /healthz HTTP/1.1\r\n");
    CHECK(c.read_to_end().empty());
    CHECK(c.ended());
}

TEST_CASE("a crowd of scrapers gets answers and makes little work [B66]", "[admin]") {
    std::atomic<int> made{0};
    admin::handlers h;
    h.metrics = [&made] {
        ++made;
        return std::string{"x 1\n"};
    };
    running_listener server({}, h);
    std::atomic<int> good{0};
    const auto before = std::chrono::steady_clock::now();
    std::vector<std::thread> crowd;
    for (int t = 0; t < 20; ++t) {
        crowd.emplace_back([&] {
            for (int i = 0; i < 100; ++i) good += get(server.port(), "/metrics").status == 200 ? 1 : 0;
        });
    }
    for (auto& t : crowd) t.join();
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    CHECK(good == 2000);
    CHECK(made <= 20 * (static_cast<int>(seconds) + 2));
}

TEST_CASE("the loop runs dry after stop, whatever the connections do", "[admin]") {
    running_listener server({});
    client idle(server.port());
    client half(server.port());
    half.write("GET / HT");
    client kept(server.port());
    kept.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    REQUIRE(server.wait_for_connections(3));
    CHECK(server.stop(2s));
    CHECK(idle.read_to_end(2s).empty());
    CHECK(idle.ended());
}

TEST_CASE("a port in use is a start-up error that names it [B66]", "[admin]") {
    running_listener first({});
    boost::asio::io_context context;
    admin::options how;
    how.listen = "127.0.0.1:" + std::to_string(first.port());
    CHECK_THROWS_WITH(admin::make_listener(context, how, {}), Contains(how.listen) && Contains("in use"));
    for (const char* bad : {"127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "nowhere.example:80", "1.2.3.4:1"}) {
        CAPTURE(bad);
        how.listen = bad;
        CHECK_THROWS_WITH(admin::make_listener(context, how, {}), Contains("cannot listen on") && Contains("admin.listen"));
    }
}

TEST_CASE("the API wants its token and answers other hosts' pages never", "[admin]") {
    struct row {
        const char* token;
        std::string headers;
        int status;  // 503: let in, and there is no store to ask
    };
    const row rows[] = {
        {"", "Host: localhost\r\n", 503},
        {"", "Host: 127.0.0.1:9464\r\n", 503},
        {"", "Host: [::1]:9464\r\n", 503},
        {"", "Host: evil.example\r\n", 403},
        {"", "", 403},
        {"s3cret-token", "Host: localhost\r\n", 401},
        {"s3cret-token", "Host: localhost\r\nAuthorization: Bearer wrong\r\n", 401},
        {"s3cret-token", "Host: localhost\r\nAuthorization: Bearer s3cret-tokenx\r\n", 401},
        {"s3cret-token", "Host: localhost\r\nAuthorization: Basic s3cret-token\r\n", 401},
        {"s3cret-token", "Host: evil.example\r\nAuthorization: Bearer s3cret-token\r\n", 503},
        {"s3cret-token", "Host: localhost\r\nAuthorization: bearer s3cret-token\r\n", 503},
    };
    for (const auto& r : rows) {
        CAPTURE(r.token, r.headers);
        admin::options how;
        how.token = outboxd::base::secret{r.token};
        running_listener server(how);
        const auto reply = get(server.port(), "/api/v1/status", r.headers);
        CHECK(reply.status == r.status);
        CHECK(reply.body.find("s3cret") == std::string::npos);
        CHECK(get(server.port(), "/healthz", r.headers).status == 200);
        CHECK(get(server.port(), "/metrics", r.headers).status == 200);
    }
}

TEST_CASE("the dashboard is one page that loads nothing from elsewhere", "[admin]") {
    running_listener server({});
    const auto page = get(server.port(), "/");
    CHECK(page.status == 200);
    CHECK_THAT(page.head, Contains("Content-Type: text/html") && Contains("default-src 'none'") && Contains("script-src 'sha256-"));
    for (const char* outside : {"http://", "https://", "src=", "@import", "url(", "innerHTML"}) {
        CAPTURE(outside);
        CHECK(page.body.find(outside) == std::string::npos);
    }
}
