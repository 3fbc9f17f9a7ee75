// One connection to a receiver: plain or TLS, one request at a time. Floor 4, used inside the room only.
//
// A read is always outstanding, into a buffer of the connection's own: while a request is on the wire it brings the answer (one system call), while the
// connection is idle it tells that the other side has gone or said something unasked. The request is written at once, with send(2); only what the socket does
// not take is waited for, and the answer is read meanwhile.
#pragma once

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/intrusive/list_hook.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/time.hpp"
#include "https/answer_reader.hpp"
#include "https/attempt.hpp"
#include "https/fault.hpp"
#include "https/parked.hpp"
#include "https/tls_session.hpp"

namespace outboxd::https {

using executor = boost::asio::io_context::executor_type;
using tcp_socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, executor>;

class connection;

// Told when an idle connection has come to its end by itself.
class idle_watcher {
public:
    virtual void idle_ended(connection& which) = 0;

protected:
    ~idle_watcher() = default;
};

class connection final : public std::enable_shared_from_this<connection>,
                         public interruptible,
                         public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    enum class answer_kind : std::uint8_t { whole, header_only, tunnel };  // tunnel: to CONNECT, the connection stays open whatever the header says

    // The socket is connected, not blocking, without delay.
    explicit connection(tcp_socket socket);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    // Both begin at once; while busy(), `co_await finished()`. Then see broken(), answer().
    void begin_handshake(std::unique_ptr<tls_session> tls);
    void begin_request(std::string_view head, std::string_view body, answer_kind kind);
    [[nodiscard]] bool busy() const noexcept { return mode_ == mode::handshake || mode_ == mode::exchange; }
    [[nodiscard]] auto finished() { return done_.wait(); }

    [[nodiscard]] const fault& broken() const noexcept { return broken_; }
    [[nodiscard]] bool open() const noexcept { return mode_ != mode::closed; }
    [[nodiscard]] answer_reader& answer() noexcept { return answer_; }
    [[nodiscard]] bool request_written() const noexcept { return written_ == head_.size() + body_.size(); }
    // When the first byte of the answer came, else when the last request began.
    [[nodiscard]] base::boot_time last_activity() const noexcept { return last_activity_; }

    // Closes the socket; a TLS goodbye goes out if the socket takes it at once. Whoever waits is not resumed.
    void close() noexcept;
    void interrupt() override;
    void drop_waiter() noexcept override { done_.drop(); }
    [[nodiscard]] int native() { return socket_.native_handle(); }

    // The pool's own.
    void rest(idle_watcher* watcher, base::boot_time until, void* home) noexcept;
    void wake_up() noexcept { watcher_ = nullptr; }
    [[nodiscard]] base::boot_time idle_until() const noexcept { return idle_until_; }
    [[nodiscard]] void* home() const noexcept { return home_; }

private:
    enum class mode : std::uint8_t { idle, handshake, exchange, closed };
    struct read_handler;
    struct write_handler;

    void arm_read();
    void await_writable();
    void on_read(const boost::system::error_code& ec, std::size_t size);
    void on_writable(const boost::system::error_code& ec);
    void step_handshake();
    void push();
    bool push_once(boost::system::error_code& ec);
    void take(std::string_view bytes);
    void decrypt();
    void end_of_stream(const boost::system::error_code& ec);
    void idle_input();
    void settle(answer_reader::state state);
    void fail(fault what);
    void finish();

    tcp_socket socket_;
    std::unique_ptr<tls_session> tls_;
    answer_reader answer_;
    parked done_;
    fault broken_;
    std::string_view head_;
    std::string_view body_;
    std::size_t written_{0};
    boost::system::error_code write_error_;
    base::boot_time last_activity_{};
    base::boot_time idle_until_{};
    idle_watcher* watcher_{nullptr};
    void* home_{nullptr};
    mode mode_{mode::idle};
    answer_kind kind_{answer_kind::whole};
    bool reading_{false};
    bool awaiting_writable_{false};
    std::array<char, 4096> buffer_;
};

}  // namespace outboxd::https
