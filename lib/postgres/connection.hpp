// One connection to PostgreSQL: libpq asynchronous on Asio. Floor 4 (postgres): never blocks the loop, has a deadline on everything, and never lets the connection string reach an error.
// libpq itself stays in the .cpp files.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "base/time.hpp"
#include "postgres/params.hpp"
#include "postgres/query_result.hpp"

namespace outboxd::postgres {

namespace asio = boost::asio;

struct connect_options {
    base::secret url;      // URI or keyword form, several hosts and every libpq option allowed; empty: PG* variables and libpq's defaults
    std::string url_file;  // when set: read again before each connect, and used instead of url (password rotation)
    std::string purpose;   // in pg_stat_activity: application_name `outboxd <purpose>`, unless the string names one
};

struct notification {
    std::string channel;
    std::string payload;
};

// Not for use by two coroutines at once. After an error that names a lost connection or a passed deadline the connection is closed (is_open() is false) and open() may be called again;
// after an error that the server answered it stays usable. A statement that may have run is never sent twice.
class connection {
public:
    explicit connection(asio::any_io_executor executor);
    ~connection();
    connection(connection&&) noexcept;
    connection& operator=(connection&&) noexcept;

    // Tries each host (and each of its addresses) in turn, honours target_session_attrs and connect_timeout. Errors: database_unreachable, database_denied, database_read_only,
    // database_busy, database_schema (no such database), bad_config (the string cannot be read), timeout; each names host, port, database, user and reason.
    asio::awaitable<base::result<void>> open(connect_options options, base::milliseconds deadline);

    // One unnamed statement. The text and the parameters are copied before the first suspension.
    asio::awaitable<base::result<query_result>> query(std::string_view sql, params p, base::milliseconds deadline, result_format format = result_format::text);
    // Several statements in one text, without parameters; one implicit transaction unless the text says otherwise. Gives the last result.
    asio::awaitable<base::result<query_result>> script(std::string_view sql, base::milliseconds deadline);
    // Waits for a NOTIFY on a channel that this session listens to; those that came with earlier query traffic come first. Error timeout (the connection stays open) when none came.
    asio::awaitable<base::result<notification>> next_notification(base::milliseconds deadline);

    [[nodiscard]] bool is_open() const noexcept;
    // As is_open(), but looks at the socket: false, and closed, when the server ended the session while it was idle. Nothing of ours was lost then.
    [[nodiscard]] bool still_open() noexcept;
    // Says goodbye and closes; harmless when closed. A coroutine that waits on this connection ends with `cancelled`.
    void close() noexcept;

    // `host h, port p, database d, user u` of the last open(): never a password. Empty before the first.
    [[nodiscard]] std::string description() const;
    [[nodiscard]] int backend_pid() const noexcept;    // 0 when closed
    // GUC_REPORT values that the server told: `server_version`, `default_transaction_read_only`, `in_hot_standby`, ... Empty when unknown.
    [[nodiscard]] std::string server_setting(const char* name) const;

    struct impl;

private:
    std::shared_ptr<impl> impl_;
};

// The same for commands that do one thing after another: runs its own loop until the answer is there.
class blocking_connection {
public:
    blocking_connection();
    ~blocking_connection();
    blocking_connection(blocking_connection&&) noexcept;
    blocking_connection& operator=(blocking_connection&&) noexcept;

    base::result<void> open(connect_options options, base::milliseconds deadline);
    base::result<query_result> query(std::string_view sql, params p, base::milliseconds deadline, result_format format = result_format::text);
    base::result<query_result> script(std::string_view sql, base::milliseconds deadline);
    void close() noexcept;
    [[nodiscard]] std::string description() const;

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

}  // namespace outboxd::postgres
