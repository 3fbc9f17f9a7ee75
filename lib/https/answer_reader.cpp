#include "https/answer_reader.hpp"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <new>

#include "base/encoding.hpp"
#include "wire/response_policy.hpp"

namespace outboxd::https {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::string_view;
using boost::system::error_code;

namespace {

constexpr std::size_t field_limit = 2048;

std::string clipped(string_view value) {
    return std::string(value.data(), std::min(value.size(), field_limit));
}

// `timeout=5, max=100` -> 5.
int timeout_parameter(std::string_view value) {
    const std::string lower = base::to_lower_ascii(value);
    const std::size_t at = lower.find("timeout=");
    if (at == std::string::npos) return -1;
    int seconds = -1;
    for (std::size_t i = at + 8; i < lower.size() && lower[i] >= '0' && lower[i] <= '9' && seconds < 100'000; ++i)
        seconds = std::max(seconds, 0) * 10 + (lower[i] - '0');
    return seconds;
}

}  // namespace

// Beast's parser with the few fields that matter taken out on the way.
class answer_parser final : public http::basic_parser<false> {
public:
    explicit answer_parser(answer_reader& owner) : owner_(owner) {
        eager(true);
        header_limit(static_cast<std::uint32_t>(answer_reader::header_limit));
        body_limit(boost::none);
        skip(!owner.has_body_);
    }

private:
    void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
    void on_response_impl(int status, string_view, int, error_code& ec) override {
        owner_.answer_.status = status;
        if (status < 100) ec = http::error::bad_status;
    }
    void on_field_impl(http::field name, string_view name_text, string_view value, error_code&) override {
        if (owner_.header_complete_ || owner_.answer_.status < 200) return;  // trailers, interim answers
        switch (name) {
            case http::field::retry_after: {
                // Several: the first valid one.
                std::string& kept = owner_.answer_.retry_after;
                if (kept.empty() || !wire::parse_retry_after(kept, base::wall_time{})) kept = clipped(value);
                break;
            }
            case http::field::location:
                if (owner_.answer_.location.empty()) owner_.answer_.location = clipped(value);
                break;
            case http::field::keep_alive: owner_.keep_alive_hint_ = timeout_parameter({value.data(), value.size()}); break;
            case http::field::unknown:
                if (base::iequals({name_text.data(), name_text.size()}, "webhook-delivery")) owner_.answer_.webhook_delivery = clipped(value);
                break;
            default: break;
        }
    }
    void on_header_impl(error_code&) override {
        if (owner_.answer_.status < 200) return;
        owner_.header_complete_ = true;
        owner_.keep_alive_ = keep_alive();
    }
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(string_view bytes, error_code&) override { return keep(bytes); }
    void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override { return keep(bytes); }
    void on_finish_impl(error_code&) override {}

    std::size_t keep(string_view bytes) {
        std::string& excerpt = owner_.answer_.excerpt;
        if (excerpt.size() < answer_reader::excerpt_limit) excerpt.append(bytes.data(), std::min(bytes.size(), answer_reader::excerpt_limit - excerpt.size()));
        return bytes.size();
    }

    answer_reader& owner_;
};

namespace {
answer_parser& parser_in(std::byte* storage) {
    return *std::launder(reinterpret_cast<answer_parser*>(storage));
}
}  // namespace

answer_reader::answer_reader() {
    static_assert(sizeof(answer_parser) <= sizeof(parser_) && alignof(answer_parser) <= 16);
}

answer_reader::~answer_reader() {
    if (parser_made_) parser_in(parser_).~answer_parser();
}

void answer_reader::renew() {
    if (parser_made_) parser_in(parser_).~answer_parser();
    parser_made_ = false;
    ::new (static_cast<void*>(parser_)) answer_parser(*this);
    parser_made_ = true;
    at_start_ = true;
}

void answer_reader::expect(bool has_body) {
    answer_ = {};
    text_.clear();
    pending_.clear();
    header_seen_ = body_seen_ = 0;
    interims_ = 0;
    keep_alive_hint_ = -1;
    state_ = state::reading;
    has_body_ = has_body;
    any_byte_ = header_complete_ = keep_alive_ = leftovers_ = false;
    renew();
}

answer_reader::state answer_reader::fail(std::string text) {
    text_ = std::move(text);
    return state_ = state::failed;
}

// The header counts; the rest is not wanted any more, so the connection cannot be used again.
answer_reader::state answer_reader::finish_body() {
    keep_alive_ = false;
    return state_ = state::complete;
}

answer_reader::state answer_reader::feed(std::string_view bytes) {
    if (!bytes.empty()) any_byte_ = true;
    while (state_ == state::reading && !bytes.empty()) {
        std::string_view slice = bytes;
        if (!header_complete_) {
            slice = bytes.substr(0, header_limit - header_seen_);
            if (slice.empty()) return fail("the header of the answer is larger than 16 KiB");
            header_seen_ += slice.size();
        } else {
            body_seen_ += slice.size();
        }
        bytes.remove_prefix(slice.size());
        step(slice);
        if (state_ == state::reading && header_complete_ && body_seen_ > body_limit) return finish_body();
    }
    if (state_ == state::complete && !bytes.empty()) leftovers_ = true;
    return state_;
}

answer_reader::state answer_reader::step(std::string_view bytes) {
    const bool from_pending = !pending_.empty();
    if (from_pending) {
        pending_.append(bytes);
        bytes = pending_;
    }
    answer_parser& parser = parser_in(parser_);
    std::string repaired;
    while (!bytes.empty()) {
        if (at_start_ && bytes.size() > 12 && bytes[12] == '\r') {
            // `HTTP/1.1 200` without the space that should follow: common, and what is meant is plain.
            repaired.assign(bytes);
            repaired.insert(12, 1, ' ');
            bytes = repaired;
        }
        if (bytes.size() > 12) at_start_ = false;
        error_code ec;
        const std::size_t used = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
        bytes.remove_prefix(used);
        if (ec == http::error::need_more) break;
        if (ec) {
            if (header_complete_) {
                text_ = std::string("the body of the answer is malformed: ") + ec.message();
                return finish_body();
            }
            if (ec == http::error::header_limit) return fail("the header of the answer is larger than 16 KiB");
            return fail("malformed answer: " + ec.message());
        }
        if (!parser.is_done()) {
            if (used == 0) break;
            continue;
        }
        if (answer_.status >= 200) {
            leftovers_ = !bytes.empty();
            state_ = state::complete;
            pending_.clear();
            return state_;
        }
        if (answer_.status == 101) return fail("the receiver switched protocols (101), which nobody asked for");
        if (++interims_ > interim_limit) return fail("more than 16 interim answers (1xx)");
        answer_ = {};
        renew();
        header_seen_ = bytes.size();
    }
    if (!repaired.empty() || !from_pending)
        pending_ = std::string(bytes);
    else
        pending_.erase(0, pending_.size() - bytes.size());
    return state_;
}

answer_reader::state answer_reader::feed_end(bool clean) {
    if (state_ != state::reading) return state_;
    if (!header_complete_)
        return fail(any_byte_ ? "the connection was closed in the middle of the answer's header" : "the connection was closed without an answer");
    error_code ec;
    parser_in(parser_).put_eof(ec);
    if (ec)
        text_ = "incomplete response: the connection was closed in the middle of the answer's body";
    else if (!clean)
        text_ = "the end of the answer's body is unsure: the connection was closed without a goodbye";
    return finish_body();
}

}  // namespace outboxd::https
