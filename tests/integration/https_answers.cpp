// What an answer is worth: framing, interim answers, limits, leftovers. Cases B25, B26, B29, B31, B37, B42, B47.
#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

namespace {

enum class then { hold, close, reset };

struct answer_case {
    const char* name;
    std::string bytes;
    then after;
    bool complete;
    int status;
    error_class fault;
    const char* text;  // part of the error
    bool kept;         // the connection is used again
};

const std::string big(9 << 20, 'x');

const std::vector<answer_case>& cases() {
    static const std::vector<answer_case> rows = {
        {"plain", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", then::hold, true, 200, error_class::none, "", true},
        {"204 without a length", "HTTP/1.1 204 No Content\r\n\r\n", then::hold, true, 204, error_class::none, "", true},
        {"304 with a length and no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", then::hold, true, 304, error_class::none, "", true},
        {"no reason phrase", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", then::hold, true, 200, error_class::none, "", true},
        {"not even the space before it", "HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n", then::hold, true, 201, error_class::none, "", true},
        {"status 999", "HTTP/1.1 999 Strange\r\nContent-Length: 0\r\n\r\n", then::hold, true, 999, error_class::none, "", true},
        {"folded header line", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n", then::hold, true, 200, error_class::none, "", true},
        {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", then::hold, true, 200, error_class::none, "", true},
        {"chunked with extension and trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-T: 1\r\n\r\n", then::hold, true, 200,
         error_class::none, "", true},
        {"ended by the close", "HTTP/1.1 200 OK\r\n\r\nok", then::close, true, 200, error_class::none, "", false},
        {"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", then::hold, true, 200, error_class::none, "", false},
        {"HTTP/1.0 with keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", then::hold, true, 200, error_class::none, "",
         true},
        {"Connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", then::hold, true, 200, error_class::none, "", false},
        {"redirect", "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.test/\r\nContent-Length: 0\r\n\r\n", then::hold, true, 302, error_class::none, "", true},
        // B25: the header counts, the body that breaks off is noted.
        {"body shorter than its length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", then::close, true, 200, error_class::none,
         "incomplete response", false},
        {"body reset in the middle", "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhello", then::reset, true, 500, error_class::none, "incomplete response",
         false},
        {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", then::close, true, 200, error_class::none, "incomplete response",
         false},
        {"bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n", then::hold, true, 200, error_class::none, "malformed", false},
        {"more bytes than the length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello+++", then::hold, true, 200, error_class::none, "", false},
        {"a second answer unasked", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", then::hold, true, 200,
         error_class::none, "", false},
        {"two lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", then::hold, false, 0, error_class::protocol,
         "malformed", false},
        {"two lengths that agree", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", then::hold, true, 200, error_class::none, "",
         true},
        {"length and chunked", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", then::hold, false, 0,
         error_class::protocol, "malformed", false},
        {"chunked and length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", then::hold, false, 0,
         error_class::protocol, "malformed", false},
        {"length is no number", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", then::hold, false, 0, error_class::protocol, "malformed", false},
        {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", then::hold, false, 0, error_class::protocol, "malformed", false},
        {"HTTP/2 preface of an answer", "HTTP/2 200\r\n\r\n", then::hold, false, 0, error_class::protocol, "malformed", false},
        {"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", then::hold, false, 0, error_class::protocol, "malformed", false},
        {"status 42", "HTTP/1.1 042 Low\r\nContent-Length: 0\r\n\r\n", then::hold, false, 0, error_class::protocol, "malformed", false},
        {"header breaks off", "HTTP/1.1 200 OK\r\nContent-Le", then::close, false, 0, error_class::protocol, "middle of the answer's header", false},
        {"nothing at all", "", then::close, false, 0, error_class::connect, "closed by the other side before an answer", false},
        {"reset", "", then::reset, false, 0, error_class::connect, "reset", false},
        // B26: interim answers.
        {"100 then 500", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", then::hold, true, 500, error_class::none, "", true},
        {"103 with a header, then 200", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
         then::hold, true, 200, error_class::none, "", true},
        {"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", then::hold, false, 0, error_class::protocol, "101", false},
        {"endless 100",
         [] {
             std::string s;
             for (int i = 0; i < 100; ++i) s += "HTTP/1.1 100 Continue\r\n\r\n";
             return s;
         }(),
         then::hold, false, 0, error_class::protocol, "interim", false},
        // B29: large answers.
        {"header of 20 KB in one line", "HTTP/1.1 200 OK\r\nX-Big: " + std::string(20'000, 'a') + "\r\nContent-Length: 0\r\n\r\n", then::hold, false, 0,
         error_class::protocol, "larger than 16 KiB", false},
        {"header of 20 KB in many lines",
         "HTTP/1.1 200 OK\r\n" +
             [] {
                 std::string s;
                 for (int i = 0; i < 1000; ++i) s += "X-Many: 0123456789\r\n";
                 return s;
             }() +
             "Content-Length: 0\r\n\r\n",
         then::hold, false, 0, error_class::protocol, "larger than 16 KiB", false},
        {"header of 15 KB", "HTTP/1.1 200 OK\r\nX-Big: " + std::string(15'000, 'a') + "\r\nContent-Length: 0\r\n\r\n", then::hold, true, 200, error_class::none,
         "", true},
        {"body of 9 MB", "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(big.size()) + "\r\n\r\n" + big, then::hold, true, 200, error_class::none, "",
         false},
        {"error with a body of 9 MB", "HTTP/1.1 500 Oops\r\nContent-Length: " + std::to_string(big.size()) + "\r\n\r\n" + big, then::hold, true, 500,
         error_class::none, "", false},
        {"chunk line without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + std::string(200'000, 'a'), then::hold, true, 200,
         error_class::none, "", false},
    };
    return rows;
}

raw_receiver::script answers(const answer_case& one) {
    return [one](raw_connection& c) {
        while (c.read_request()) {
            // A refused connection is the sender's way to say that it has seen enough.
            if (!c.write(one.bytes)) return;
            if (one.after == then::reset) return c.wait(100ms), c.reset();
            if (one.after == then::close) return c.close();
        }
    };
}

void check(const answer_case& one, bool tls, const ports::send_reply& reply, https_bench& bench) {
    INFO(one.name << (tls ? " over TLS" : " plain") << ": " << reply.error);
    CHECK(reply.complete == one.complete);
    if (one.complete) CHECK(reply.status == one.status);
    CHECK(reply.error_class == one.fault);
    if (std::string_view(one.text).empty())
        CHECK(reply.error.empty());
    else
        CHECK_THAT(reply.error, Catch::Matchers::Contains(one.text));
    CHECK_FALSE(reply.own_fault);
    CHECK(reply.retry_after.empty());
    CHECK(bench.sender->idle_connections() == (one.kept ? 1U : 0U));
}

}  // namespace

TEST_CASE("an answer counts by its header, whatever becomes of its body, and only a clean end keeps the connection (B25 B26 B29 B47)") {
    for (const answer_case& one : cases()) {
        raw_receiver receiver(answers(one));
        https_bench bench;
        check(one, false, bench.send(https_bench::route(receiver.url())), bench);
    }
}

TEST_CASE("the same answers mean the same over TLS (B25 B26 B37)") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    for (const answer_case& one : cases()) {
        if (one.after == then::reset) continue;
        raw_receiver_options options;
        options.tls = root.for_localhost();
        raw_receiver receiver(answers(one), options);
        https_bench bench;
        check(one, true, bench.send(https_bench::route(receiver.url(), profile)), bench);
    }
}

TEST_CASE("a connection cut without close_notify matters only where the end of the body rests on it (B37)") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    struct row {
        const char* name;
        const char* bytes;
        bool complete;
        const char* text;
    };
    const std::vector<row> rows = {
        {"whole body by length", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true, ""},
        {"body ended by the close", "HTTP/1.0 200 OK\r\n\r\nok", true, "unsure"},
        {"cut in the body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", true, "incomplete response"},
        {"cut after a header without length", "HTTP/1.1 200 OK\r\n\r\n", true, "unsure"},
        {"cut in the header", "HTTP/1.1 200 OK\r\nContent", false, "middle of the answer's header"},
    };
    for (const row& one : rows) {
        raw_receiver_options options;
        options.tls = root.for_localhost();
        raw_receiver receiver(
            [one](raw_connection& c) {
                c.read_request();
                c.write(one.bytes);
                c.close_abruptly();
            },
            options);
        https_bench bench;
        const auto reply = bench.send(https_bench::route(receiver.url(), profile));
        INFO(one.name << ": " << reply.error);
        CHECK(reply.complete == one.complete);
        if (std::string_view(one.text).empty())
            CHECK(reply.error.empty());
        else
            CHECK_THAT(reply.error, Catch::Matchers::Contains(one.text));
        CHECK(bench.sender->idle_connections() == 0);
    }
}

TEST_CASE("the fields that matter and the first KiB of the body are kept, byte for byte") {
    const std::string body = std::string("\0\x01\xff<html>", 9) + std::string(3000, 'z');
    raw_receiver receiver([&](raw_connection& c) {
        while (c.read_request()) {
            c.answer(429, body, "retry-after: soon\r\nRETRY-AFTER: 7\r\nLocation: /a\r\nWebhook-Delivery: disable\r\n");
        }
    });
    https_bench bench;
    const auto reply = bench.send(https_bench::route(receiver.url()));
    CHECK(reply.status == 429);
    CHECK(reply.retry_after == "7");
    CHECK(reply.location == "/a");
    CHECK(reply.webhook_delivery == "disable");
    CHECK(reply.excerpt == body.substr(0, 1024));
    CHECK(reply.phases.first_byte >= 0);
    CHECK(reply.phases.connect >= 0);
    CHECK(reply.phases.tls == -1);
}

TEST_CASE("an answer is read while the body is still being written (B31)") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    for (const bool tls : {false, true})
        for (const int status : {413, 401, 429}) {
            INFO(status << (tls ? " TLS" : " plain"));
            raw_receiver_options options;
            if (tls) options.tls = root.for_localhost();
            raw_receiver receiver(
                [status](raw_connection& c) {
                    c.read_head();
                    c.answer(status, "", "Connection: close\r\nRetry-After: 7\r\n");
                    c.wait(200ms);
                    c.reset();
                },
                options);
            https_bench bench;
            const auto reply = bench.send(https_bench::route(receiver.url(), profile), std::string(20 << 20, 'b'));
            INFO(reply.error);
            CHECK(reply.complete);
            CHECK(reply.status == status);
            CHECK(reply.retry_after == "7");
            CHECK(bench.sender->idle_connections() == 0);
            CHECK(receiver.connections() == 1);
        }
}

TEST_CASE("a connection lost while a large body is sent says so") {
    raw_receiver receiver([](raw_connection& c) {
        c.read_head();
        c.reset();
    });
    https_bench bench;
    const auto reply = bench.send(https_bench::route(receiver.url()), std::string(20 << 20, 'b'));
    CHECK_FALSE(reply.complete);
    CHECK(reply.error_class == error_class::connect);
    CHECK_THAT(reply.error, Catch::Matchers::Contains("reset by the other side while the request was being sent"));
}

TEST_CASE("a large body arrives whole, plain and over TLS") {
    const certificate_authority root;
    const temporary_directory files;
    ports::tls_profile profile;
    profile.ca_file = files.write("ca.pem", root.certificate_pem()).string();
    std::string body(3'000'000, '\0');
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 + i / 251);
    for (const bool tls : {false, true}) {
        raw_receiver_options options;
        if (tls) options.tls = root.for_localhost();
        raw_receiver receiver(answer_always(200, "fine"), options);
        https_bench bench;
        for (int i = 0; i < 2; ++i) {
            const auto reply = bench.send(https_bench::route(receiver.url(), profile), body);
            INFO(reply.error);
            CHECK(reply.status == 200);
            CHECK(receiver.requests().back().body == body);
        }
        CHECK(receiver.connections() == 1);
    }
}

TEST_CASE("every row on one kept connection gets its own answer (B26)") {
    raw_receiver receiver([](raw_connection& c) {
        for (int i = 0; c.read_request(); ++i) {
            c.write("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
            c.wait(2ms);
            c.answer(i % 2 == 0 ? 200 : 500);
        }
    });
    https_bench bench;
    const auto route = https_bench::route(receiver.url());
    for (int i = 0; i < 40; ++i) CHECK(bench.send(route).status == (i % 2 == 0 ? 200 : 500));
    CHECK(receiver.connections() == 1);
    CHECK(bench.sender->connection_totals().reused == 39);
}
