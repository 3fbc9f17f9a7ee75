// A database session that mends itself: one statement at a time, reconnect with capped back-off inside the call. Floor 4 (postgres): errors are values, each state change is one log line, never a secret.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "postgres/connection.hpp"
#include "postgres/session_state.hpp"

namespace outboxd::postgres {

class session {
public:
    session(asio::any_io_executor executor, connect_options options);
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // Waits for its turn and for a connection until `deadline` has passed, then gives the statement as much again. A statement that may have reached the server is not repeated: the caller decides.
    // While the database is away, a call ends at its deadline with the reason of the last try; calls do not come more often than the back-off.
    asio::awaitable<base::result<query_result>> query(std::string_view sql, params p, base::milliseconds deadline, result_format format = result_format::binary);
    // Several statements in one transaction; see connection::script.
    asio::awaitable<base::result<query_result>> script(std::string_view sql, base::milliseconds deadline);

    // How often a connection was made: a caller that remembers it learns that its session is a new one.
    [[nodiscard]] std::uint64_t connects() const noexcept { return connects_; }
    [[nodiscard]] bool ready() const noexcept { return state_.phase() == session_phase::ready; }
    [[nodiscard]] std::string description() const { return connection_.description(); }

    // Every wait ends now with `cancelled`; later calls as well.
    void abort();
    // Says goodbye when no statement runs; a later call connects again.
    void close();

private:
    using time_point = std::chrono::steady_clock::time_point;
    struct waiter;
    class turn;

    asio::awaitable<bool> take_turn(time_point end);
    void end_turn() noexcept;
    asio::awaitable<std::optional<base::error>> make_ready(time_point end);
    asio::awaitable<base::result<void>> connect(base::milliseconds deadline);
    asio::awaitable<base::result<query_result>> run(std::string_view sql, params p, base::milliseconds deadline, result_format format);
    asio::awaitable<base::result<query_result>> run_read_committed(std::string_view sql, params p, base::milliseconds deadline, result_format format);
    void note(session_event event, const std::optional<base::error>& why);
    [[nodiscard]] double random() { return std::uniform_real_distribution<double>{0, 1}(generator_); }
    [[nodiscard]] static base::error aborted();

    connect_options options_;
    connection connection_;
    session_state state_;
    asio::steady_timer pause_;
    time_point retry_at_{};
    std::optional<base::error> last_fault_;
    std::deque<waiter*> waiters_;
    bool taken_{false};
    bool aborted_{false};
    bool served_{false};         // since it was connected
    bool read_committed_{true};  // the database's default isolation; when it is stricter, each statement gets a transaction of its own kind
    std::uint64_t connects_{0};
    std::minstd_rand generator_{std::random_device{}()};
};

}  // namespace outboxd::postgres
