// The inside of a connection: the libpq handle, its descriptor on the loop, and its timers. Floor 4 (postgres), private to the files of connection; everything here runs on the loop's thread.
#pragma once

#include <libpq-fe.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <string>

#include "base/kill_hook.hpp"
#include "postgres/connection.hpp"
#include "postgres/conninfo.hpp"

namespace outboxd::postgres {

// Why a wait on the socket ended.
enum class wake { ready, timeout, closed };

struct connection::impl : std::enable_shared_from_this<connection::impl> {
    explicit impl(asio::any_io_executor e) : executor(e), socket(e), timer(e), lookup(e) {}
    ~impl() { close(); }

    // The deadline of the operation in hand: when it passes, the wait on the socket ends with `timeout`.
    void arm(base::milliseconds deadline);
    void disarm();
    asio::awaitable<wake> wait_readable();
    asio::awaitable<wake> wait_readable_or_writable();

    // One try at one address.
    asio::awaitable<base::result<void>> connect_once(const conninfo& info, database_host host, std::string session_attrs, std::string application, base::milliseconds deadline);
    asio::awaitable<wake> poll_until_connected();
    asio::awaitable<base::result<query_result>> finish_statement(int sent, base::milliseconds deadline, base::kill_step step = base::kill_step::none);
    asio::awaitable<wake> flush();
    asio::awaitable<wake> collect(result_ptr& first_error, result_ptr& last);
    base::result<void> consume();     // reads what is there and keeps notifications
    base::error give_up(wake why);    // closes after a deadline or a close() from elsewhere
    base::error lost(std::string_view during);
    base::error server_error(const pg_result* r);
    void cancel_on_server();
    void attach();                    // gives the descriptor to the loop
    void detach();
    void keep_notifications();
    void note_notice(const PGresult* r) noexcept;
    void close() noexcept;

    asio::any_io_executor executor;
    asio::posix::stream_descriptor socket;
    asio::steady_timer timer;
    asio::steady_timer lookup;    // the wait for a host name
    PGconn* conn{nullptr};
    bool connected{false};
    bool timed_out{false};
    bool farewell{false};         // the server said between statements that it ends the session
    std::uint64_t armed{0};       // number of the armed deadline, so that a late timer does not hit the next operation
    std::uint64_t generation{0};  // counts closings: a coroutine that wakes in another generation lost its connection
    std::deque<notification> notifications;
    std::string description;
};

}  // namespace outboxd::postgres
