// Reads one answer out of a byte stream, bounded in every direction. Floor 4, used inside the room only; Beast stays in the .cpp file.
//
// The rules (RFC 9112, contract section 5):
//   - interim answers (1xx) are skipped, at most 16; 101 is a fault, nobody asked for another protocol
//   - a status line without a reason phrase, even without the space before it, is accepted; obs-fold is accepted
//   - header larger than 16 KiB, a contradiction between Content-Length fields, Content-Length together with Transfer-Encoding, any other malformed line: fault
//   - once the header is whole the answer counts, whatever becomes of the body: a broken chunk, too few bytes, the end of the stream are notes
//   - the body ends by Content-Length, by the last chunk, or by the end of the stream; past 64 KiB nothing more is read
//   - bytes after the end of an answer make the connection unusable
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outboxd::https {

struct answer {
    int status{0};
    std::string retry_after;
    std::string webhook_delivery;
    std::string location;
    std::string excerpt;  // raw bytes
};

class answer_reader {
public:
    static constexpr std::size_t header_limit = 16 * 1024;
    static constexpr std::size_t body_limit = 64 * 1024;
    static constexpr std::size_t excerpt_limit = 1024;
    static constexpr int interim_limit = 16;

    enum class state : std::uint8_t { reading, complete, failed };

    answer_reader();
    ~answer_reader();
    answer_reader(const answer_reader&) = delete;
    answer_reader& operator=(const answer_reader&) = delete;

    // A new answer is awaited. `has_body` false: to HEAD and CONNECT, where the header is all.
    void expect(bool has_body);
    // Bytes of the stream, each once.
    state feed(std::string_view bytes);
    // The stream ended; `clean` false when the end may be forged or premature (TLS without close_notify, reset).
    state feed_end(bool clean);

    [[nodiscard]] bool any_byte() const noexcept { return any_byte_; }
    [[nodiscard]] bool header_complete() const noexcept { return header_complete_; }
    // After `complete`: the connection can carry another request.
    [[nodiscard]] bool keep_alive() const noexcept { return state_ == state::complete && keep_alive_ && !leftovers_; }
    // Seconds of `Keep-Alive: timeout=N`, -1 when not given.
    [[nodiscard]] int keep_alive_hint() const noexcept { return keep_alive_hint_; }
    void mark_leftovers() noexcept { leftovers_ = true; }
    [[nodiscard]] bool leftovers() const noexcept { return leftovers_; }
    // What was wrong: the fault after `failed`, the note about the body after `complete` (empty when whole or cut on purpose).
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] https::answer& content() noexcept { return answer_; }

private:
    friend class answer_parser;
    state step(std::string_view bytes);
    state fail(std::string text);
    state finish_body();
    void renew();

    https::answer answer_;
    std::string text_;
    std::string pending_;  // bytes that the parser could not use yet
    std::size_t header_seen_{0};
    std::size_t body_seen_{0};
    int interims_{0};
    int keep_alive_hint_{-1};
    state state_{state::reading};
    bool has_body_{true};
    bool any_byte_{false};
    bool at_start_{true};
    bool header_complete_{false};
    bool keep_alive_{false};
    bool leftovers_{false};
    bool parser_made_{false};
    alignas(16) std::byte parser_[192];
};

}  // namespace outboxd::https
