// The reader of answers, fed in every possible cut: what comes out does not depend on how the bytes arrive.
#include "https/answer_reader.hpp"

#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"

using outboxd::https::answer_reader;
using state = answer_reader::state;

namespace {

state feed_in(answer_reader& reader, std::string_view bytes, std::size_t piece) {
    state now = state::reading;
    for (std::size_t at = 0; at < bytes.size() && now == state::reading; at += piece) now = reader.feed(bytes.substr(at, piece));
    return now;
}

}  // namespace

TEST_CASE("an answer reads the same in pieces of any size") {
    struct row {
        const char* name;
        std::string bytes;
        state end;
        int status;
        const char* excerpt;
    };
    const std::vector<row> rows = {
        {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRetry-After: 3\r\n\r\nhello", state::complete, 200, "hello"},
        {"chunks", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n", state::complete, 500, "hello"},
        {"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 204 Done\r\n\r\n", state::complete, 204, ""},
        {"no reason", "HTTP/1.1 100\r\n\r\nHTTP/1.1 201\r\nContent-Length: 0\r\n\r\n", state::complete, 201, ""},
        {"bad", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", state::failed, 200, ""},
        {"no HTTP", "<html></html>, more of it", state::failed, 0, ""},
    };
    for (const row& one : rows)
        for (std::size_t piece = 1; piece <= one.bytes.size(); ++piece) {
            answer_reader reader;
            reader.expect(true);
            INFO(one.name << " in pieces of " << piece << ": " << reader.text());
            state now = feed_in(reader, one.bytes, piece);
            if (now == state::reading) now = reader.feed_end(true);  // nonsense in small pieces is seen as such at the end only
            CHECK(now == one.end);
            if (one.end == state::complete) {
                CHECK(reader.content().status == one.status);
                CHECK(reader.content().excerpt == one.excerpt);
                CHECK(reader.keep_alive());
            }
        }
}

TEST_CASE("a reader can be used again, and keeps nothing of the answer before") {
    answer_reader reader;
    for (int i = 0; i < 3; ++i) {
        reader.expect(true);
        CHECK_FALSE(reader.any_byte());
        CHECK(reader.feed("HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nKeep-Alive: timeout=7\r\nContent-Length: 2\r\n\r\nno") == state::complete);
        CHECK(reader.content().retry_after == "9");
        CHECK(reader.keep_alive_hint() == 7);
        reader.expect(true);
        CHECK(reader.feed("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") == state::complete);
        CHECK(reader.content().retry_after.empty());
        CHECK(reader.content().excerpt.empty());
        CHECK(reader.keep_alive_hint() == -1);
    }
}

TEST_CASE("a header without end stops at 16 KiB, a body at 64 KiB, in pieces of any size") {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{100'000}}) {
        answer_reader header;
        header.expect(true);
        CHECK(feed_in(header, "HTTP/1.1 200 OK\r\nX: " + std::string(30'000, 'a'), piece) == state::failed);
        answer_reader body;
        body.expect(true);
        std::size_t fed = 0;
        state now = body.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while (now == state::reading) {
            now = body.feed("5\r\nhello\r\n");
            fed += 10;
            REQUIRE(fed < 70'000);
        }
        CHECK(now == state::complete);
        CHECK_FALSE(body.keep_alive());
        CHECK(body.text().empty());
        CHECK(body.content().excerpt.size() == 1024);
    }
}

TEST_CASE("an answer to HEAD or CONNECT has no body") {
    answer_reader reader;
    reader.expect(false);
    CHECK(reader.feed("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n") == state::complete);
    CHECK(reader.keep_alive());
}

TEST_CASE("random bytes never pass for an answer and never hurt") {
    std::mt19937 random(4711);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes = round % 2 == 0 ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" : "HTTP/1.";
        for (std::size_t i = 0; i < 200; ++i) bytes += static_cast<char>(random() & 0xffU);
        if (round % 3 == 0) bytes[random() % bytes.size()] = '\n';
        answer_reader reader;
        reader.expect(true);
        static_cast<void>(feed_in(reader, bytes, 1 + random() % 50));
        CHECK(reader.feed_end(true) != state::reading);
    }
}
