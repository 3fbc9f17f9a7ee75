#include "https/connection.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <cstring>
#include <utility>

#include "base/kill_hook.hpp"

namespace outboxd::https {

namespace asio = boost::asio;
using boost::system::error_code;
using lifecycle::error_class;

namespace {
// Plaintext on its way from or to OpenSSL. One thread, and nobody keeps a view of it: all connections share it.
constexpr std::size_t record_size = 16 * 1024;
thread_local std::array<char, record_size> scratch;
}  // namespace

struct connection::read_handler {
    std::shared_ptr<connection> self;
    void operator()(const error_code& ec, std::size_t size) const { self->on_read(ec, size); }
};

struct connection::write_handler {
    std::shared_ptr<connection> self;
    void operator()(const error_code& ec) const { self->on_writable(ec); }
};

connection::connection(tcp_socket socket) : socket_(std::move(socket)) {}

void connection::begin_handshake(std::unique_ptr<tls_session> tls) {
    tls_ = std::move(tls);
    broken_ = {};
    mode_ = mode::handshake;
    arm_read();
    step_handshake();
}

void connection::begin_request(std::string_view head, std::string_view body, answer_kind kind) {
    head_ = head;
    body_ = body;
    written_ = 0;
    write_error_ = {};
    broken_ = {};
    kind_ = kind;
    answer_.expect(kind == answer_kind::whole);
    mode_ = mode::exchange;
    arm_read();
    push();
    if (written_ > 0) base::kill_point(base::kill_step::while_sending);
}

void connection::arm_read() {
    if (reading_ || mode_ == mode::closed) return;
    reading_ = true;
    socket_.async_read_some(asio::buffer(buffer_), read_handler{shared_from_this()});
}

void connection::await_writable() {
    if (awaiting_writable_ || mode_ == mode::closed) return;
    awaiting_writable_ = true;
    socket_.async_wait(tcp_socket::wait_write, write_handler{shared_from_this()});
}

void connection::on_writable(const error_code& ec) {
    awaiting_writable_ = false;
    if (ec) return;
    if (mode_ == mode::handshake) step_handshake();
    if (mode_ == mode::exchange && !request_written()) push();
}

void connection::on_read(const error_code& ec, std::size_t size) {
    reading_ = false;
    switch (mode_) {
        case mode::closed: return;
        case mode::idle:
            if (ec || !tls_) return idle_input();
            tls_->give({buffer_.data(), size});
            return decrypt();
        case mode::handshake:
            if (ec) return fail(make_fault(error_class::tls, "the connection was " + describe(ec) + " during the TLS handshake"));
            tls_->give({buffer_.data(), size});
            return step_handshake();
        case mode::exchange:
            if (ec) return end_of_stream(ec);
            if (!answer_.any_byte()) last_activity_ = base::boot_clock::now();
            if (tls_) {
                tls_->give({buffer_.data(), size});
                return decrypt();
            }
            return settle(answer_.feed({buffer_.data(), size}));
    }
}

void connection::step_handshake() {
    switch (tls_->handshake()) {
        case tls_session::step::done: mode_ = mode::idle; return decrypt();  // takes what came along with the last flight
        case tls_session::step::want_read: return arm_read();
        case tls_session::step::want_write: return await_writable();
        case tls_session::step::closed: return fail(make_fault(error_class::tls, "the receiver closed the connection during the TLS handshake"));
        case tls_session::step::failed: return fail(make_fault(error_class::tls, tls_->fault()));
    }
}

// Writes what the socket takes. An error is kept until the reader has seen what the other side had to say: an early 413 counts more than the broken pipe after
// it.
void connection::push() {
    while (!request_written()) {
        error_code ec;
        if (push_once(ec)) continue;
        if (!ec) return await_writable();
        if (is_shortage(ec)) return fail(own_fault("sending failed: " + describe(ec)));
        write_error_ = ec;
        return;
    }
}

bool connection::push_once(error_code& ec) {
    const std::string_view head = written_ < head_.size() ? head_.substr(written_) : std::string_view{};
    std::string_view body = written_ < head_.size() ? body_ : body_.substr(written_ - head_.size());
    std::size_t sent = 0;
    if (!tls_) {
        sent = socket_.write_some(std::array<asio::const_buffer, 2>{asio::buffer(head), asio::buffer(body)}, ec);
        if (ec == asio::error::would_block || ec == asio::error::try_again || ec == asio::error::interrupted) ec = {};
        written_ += sent;
        return sent > 0;
    }
    // Head and the beginning of the body in one record. A retry after want_write shows the same bytes again, since `written_` has not moved.
    std::string_view record = body.substr(0, record_size);
    if (!head.empty()) {
        const std::size_t from_head = std::min(head.size(), record_size);
        const std::size_t from_body = std::min(body.size(), record_size - from_head);
        std::memcpy(scratch.data(), head.data(), from_head);
        if (from_body > 0) std::memcpy(scratch.data() + from_head, body.data(), from_body);
        record = {scratch.data(), from_head + from_body};
    }
    switch (tls_->write(record.data(), record.size(), sent)) {
        case tls_session::step::done: written_ += sent; return true;
        case tls_session::step::want_read:
        case tls_session::step::want_write: return false;
        case tls_session::step::closed: ec = asio::error::broken_pipe; return false;
        case tls_session::step::failed:
            ec = tls_->send_error() != 0 ? error_code(tls_->send_error(), boost::system::system_category()) : error_code(asio::error::broken_pipe);
            return false;
    }
    return false;
}

// Takes all the plaintext there is. In idle mode there should be none: tickets and key updates are OpenSSL's own business.
void connection::decrypt() {
    auto state = answer_reader::state::reading;
    const bool was_idle = mode_ == mode::idle;
    do {
        std::size_t got = 0;
        const auto step = tls_->read(scratch.data(), scratch.size(), got);
        if (step == tls_session::step::done) {
            if (was_idle) return idle_input();
            if (state != answer_reader::state::reading) {
                answer_.mark_leftovers();
                continue;
            }
            state = answer_.feed({scratch.data(), got});
            continue;
        }
        if (step == tls_session::step::want_read || step == tls_session::step::want_write) break;
        if (was_idle && watcher_ == nullptr && step == tls_session::step::failed) return fail(make_fault(error_class::tls, tls_->fault()));
        if (was_idle) return idle_input();
        if (state != answer_reader::state::reading) {
            answer_.mark_leftovers();
            break;
        }
        if (step == tls_session::step::closed && !answer_.any_byte()) return end_of_stream(asio::error::eof);
        if (step == tls_session::step::closed) return settle(answer_.feed_end(true));
        if (answer_.header_complete()) return settle(answer_.feed_end(false));
        return fail(make_fault(error_class::tls, tls_->fault()));
    } while (!tls_->drained());
    if (was_idle) return finish();
    settle(state);
}

void connection::end_of_stream(const error_code& ec) {
    if (answer_.header_complete()) return settle(answer_.feed_end(ec == asio::error::eof && !tls_));
    if (is_shortage(ec)) return fail(own_fault("reading failed: " + describe(ec)));
    if (answer_.any_byte()) return settle(answer_.feed_end(false));
    // Nothing of an answer. What the write said is nearer to the cause.
    const error_code& cause = write_error_ ? write_error_ : ec;
    fail(make_fault(error_class::connect,
                    "the connection was " + describe(cause) + (request_written() ? " before an answer" : " while the request was being sent")));
}

void connection::settle(answer_reader::state state) {
    switch (state) {
        case answer_reader::state::reading: return arm_read();
        case answer_reader::state::failed: return fail(make_fault(error_class::protocol, answer_.text()));
        case answer_reader::state::complete: return finish();
    }
}

void connection::fail(fault what) {
    broken_ = std::move(what);
    close();
    done_.wake();
}

// The handshake or the answer is there. The next read is armed before anyone is told, since the news may start the next request at once.
void connection::finish() {
    const bool tunnel = kind_ == answer_kind::tunnel && answer_.content().status / 100 == 2;
    const bool stays = mode_ == mode::idle || (request_written() && (answer_.keep_alive() || tunnel));
    if (stays) {
        mode_ = mode::idle;
        arm_read();
    } else {
        close();
    }
    done_.wake();
}

void connection::idle_input() {
    close();
    if (idle_watcher* watcher = std::exchange(watcher_, nullptr)) return watcher->idle_ended(*this);
    done_.wake();
}

void connection::close() noexcept {
    if (mode_ == mode::closed) return;
    mode_ = mode::closed;
    if (tls_) tls_->goodbye();
    error_code ignored;
    socket_.close(ignored);
}

void connection::interrupt() {
    close();
    done_.wake_later(socket_.get_executor());
}

void connection::rest(idle_watcher* watcher, base::boot_time until, void* home) noexcept {
    watcher_ = watcher;
    idle_until_ = until;
    home_ = home;
    head_ = body_ = {};
    written_ = 0;
}

}  // namespace outboxd::https
