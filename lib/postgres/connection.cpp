#include "postgres/connection.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>

#include "base/encoding.hpp"
#include "postgres/background.hpp"
#include "postgres/connection_impl.hpp"
#include "postgres/sqlstate.hpp"

namespace outboxd::postgres {

namespace {

constexpr auto as_values = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t notification_limit = 10'000;

// A statement that is left in the middle (an exception, a destroyed coroutine) makes its connection useless: the next answer would be the old one.
class close_unless_done {
public:
    explicit close_unless_done(connection::impl& c) : connection_(&c) {}
    ~close_unless_done() {
        if (connection_ != nullptr) connection_->close();
    }
    close_unless_done(const close_unless_done&) = delete;
    close_unless_done& operator=(const close_unless_done&) = delete;
    void done() noexcept { connection_ = nullptr; }

private:
    connection::impl* connection_;
};

}  // namespace

void connection::impl::arm(base::milliseconds deadline) {
    timed_out = false;
    const auto number = ++armed;
    timer.expires_after(deadline);
    timer.async_wait([self = shared_from_this(), number](const boost::system::error_code& ec) {
        if (ec || number != self->armed) return;
        self->timed_out = true;
        boost::system::error_code ignored;
        self->socket.cancel(ignored);
    });
}

void connection::impl::disarm() {
    ++armed;
    timed_out = false;
    timer.cancel();
}

asio::awaitable<wake> connection::impl::wait_readable() {
    const auto before = generation;
    if (timed_out) co_return wake::timeout;
    const auto [ec] = co_await socket.async_wait(asio::posix::stream_descriptor::wait_read, as_values);
    if (generation != before) co_return wake::closed;
    if (timed_out) co_return wake::timeout;
    co_return ec ? wake::closed : wake::ready;
}

asio::awaitable<wake> connection::impl::wait_readable_or_writable() {
    using namespace asio::experimental::awaitable_operators;
    const auto before = generation;
    if (timed_out) co_return wake::timeout;
    auto readable = socket.async_wait(asio::posix::stream_descriptor::wait_read, as_values);
    auto writable = socket.async_wait(asio::posix::stream_descriptor::wait_write, as_values);
    const auto first = co_await (std::move(readable) || std::move(writable));
    if (generation != before) co_return wake::closed;
    if (timed_out) co_return wake::timeout;
    const auto ec = first.index() == 0 ? std::get<0>(std::get<0>(first)) : std::get<0>(std::get<1>(first));
    co_return ec ? wake::closed : wake::ready;
}

void connection::impl::attach() {
    boost::system::error_code ec;
    socket.assign(PQsocket(conn), ec);
}

// libpq owns the descriptor: it must be out of the loop before libpq may close it.
void connection::impl::detach() {
    if (socket.is_open()) socket.release();
}

void connection::impl::close() noexcept {
    ++generation;
    connected = false;
    farewell = false;
    disarm();
    lookup.cancel();
    detach();
    notifications.clear();
    if (conn != nullptr) PQfinish(conn);
    conn = nullptr;
}

void connection::impl::keep_notifications() {
    while (PGnotify* n = PQnotifies(conn)) {
        if (notifications.size() < notification_limit) notifications.push_back({n->relname, n->extra});
        PQfreemem(n);
    }
}

// Notices are of no interest, but for the one that comes between statements: idle timeout, shutdown, an operator's hand. The end of the stream may follow a moment later.
void connection::impl::note_notice(const PGresult* r) noexcept {
    const char* severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity != nullptr && (std::string_view{severity} == "FATAL" || std::string_view{severity} == "PANIC")) farewell = true;
}

base::result<void> connection::impl::consume() {
    const int ok = PQconsumeInput(conn);
    keep_notifications();
    if (ok == 0) return lost("while reading");
    return {};
}

base::error connection::impl::lost(std::string_view during) {
    close();
    return base::make_error(base::errc::database_unreachable, "the connection to the database broke " + std::string{during} + " (" + description + ")");
}

// A statement whose answer is not awaited any more shall not go on waiting for its locks on the server. PQcancel blocks, so it goes to a thread; if that fails, the server finds out by itself.
void connection::impl::cancel_on_server() {
    PGcancel* handle = PQgetCancel(conn);
    if (handle == nullptr) return;
    const std::shared_ptr<PGcancel> owned{handle, [](PGcancel* c) { PQfreeCancel(c); }};
    run_in_background([owned] {
        char text[256];
        PQcancel(owned.get(), text, sizeof text);
    });
}

base::error connection::impl::give_up(wake why) {
    if (why == wake::timeout) {
        if (connected) cancel_on_server();
        close();
        return base::make_error(base::errc::timeout, "the database did not answer in time (" + description + ")");
    }
    close();
    return base::make_error(base::errc::cancelled, "the wait for the database was ended");
}

base::error connection::impl::server_error(const pg_result* r) {
    const char* state = r == nullptr ? nullptr : PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (state == nullptr) return lost("during a statement");
    const char* primary = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    base::error e{classify(state), base::printable(primary == nullptr ? "" : primary, 300) + " (SQLSTATE " + state + ")", state};
    if (PQstatus(conn) == CONNECTION_BAD || ends_session(e.sqlstate)) {
        e.text += ", " + description;
        close();
    }
    return e;
}

asio::awaitable<wake> connection::impl::flush() {
    for (;;) {
        const int left = PQflush(conn);
        if (left <= 0) co_return wake::ready;  // an error shows when the answer is read
        const auto why = co_await wait_readable_or_writable();
        if (why != wake::ready) co_return why;
        const auto read = consume();  // a server that is itself blocked in writing must be read, or both wait for ever
        if (!read) co_return wake::closed;
    }
}

// All results of the statement: the first error and the last good one.
asio::awaitable<wake> connection::impl::collect(result_ptr& first_error, result_ptr& last) {
    for (;;) {
        while (PQisBusy(conn) == 1) {
            const auto why = co_await wait_readable();
            if (why != wake::ready) co_return why;
            if (PQconsumeInput(conn) == 0 && PQstatus(conn) == CONNECTION_BAD && PQisBusy(conn) == 1) co_return wake::closed;
        }
        result_ptr r{PQgetResult(conn)};
        if (!r) break;
        const auto status = PQresultStatus(r.get());
        if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
            last = std::move(r);
            continue;
        }
        if (!first_error) first_error = std::move(r);
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) break;  // never asked for; the caller sees no SQLSTATE and closes
    }
    keep_notifications();
    co_return wake::ready;
}

asio::awaitable<base::result<query_result>> connection::impl::finish_statement(int sent, base::milliseconds deadline, base::kill_step step) {
    close_unless_done guard{*this};
    if (sent != 1) co_return lost("before a statement");
    const auto before = generation;
    arm(deadline);
    auto why = co_await flush();
    base::kill_point(step);
    result_ptr first_error;
    result_ptr last;
    if (why == wake::ready) why = co_await collect(first_error, last);
    if (generation != before) {  // close() came from elsewhere, or flush() saw the end
        guard.done();
        if (why == wake::ready) why = wake::closed;
        co_return base::make_error(base::errc::cancelled, "the wait for the database was ended");
    }
    if (why == wake::closed && PQstatus(conn) == CONNECTION_BAD) co_return lost("during a statement");
    if (why != wake::ready) co_return give_up(why);
    disarm();
    guard.done();
    if (first_error) co_return server_error(first_error.get());
    if (!last) co_return lost("during a statement");
    co_return query_result{std::move(last)};
}

connection::connection(asio::any_io_executor executor) : impl_(std::make_shared<impl>(std::move(executor))) {}
connection::~connection() {
    if (impl_) impl_->close();
}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&&) noexcept = default;

asio::awaitable<base::result<query_result>> connection::query(std::string_view sql, params p, base::milliseconds deadline, result_format format) {
    const auto self = impl_;
    if (!self->connected) co_return base::make_error(base::errc::database_unreachable, "not connected to the database");
    const std::string text{sql};
    int sent = 0;
    {
        const auto form = p.wire();
        sent = PQsendQueryParams(self->conn, text.c_str(), p.count(), form.types.data(), form.values.data(), form.lengths.data(), form.formats.data(), static_cast<int>(format));
    }
    auto answer = co_await self->finish_statement(sent, deadline, p.step());
    co_return answer;
}

asio::awaitable<base::result<query_result>> connection::script(std::string_view sql, base::milliseconds deadline) {
    const auto self = impl_;
    if (!self->connected) co_return base::make_error(base::errc::database_unreachable, "not connected to the database");
    const std::string text{sql};
    const int sent = PQsendQuery(self->conn, text.c_str());
    auto answer = co_await self->finish_statement(sent, deadline);
    co_return answer;
}

asio::awaitable<base::result<notification>> connection::next_notification(base::milliseconds deadline) {
    const auto self = impl_;
    if (!self->connected) co_return base::make_error(base::errc::database_unreachable, "not connected to the database");
    self->arm(deadline);
    while (self->notifications.empty()) {
        const auto why = co_await self->wait_readable();
        if (why == wake::timeout) {
            self->disarm();
            co_return base::make_error(base::errc::timeout, "no notification came");
        }
        if (why == wake::closed) {
            if (self->connected) self->close();
            co_return base::make_error(base::errc::cancelled, "the wait for a notification was ended");
        }
        const auto read = self->consume();
        if (!read) co_return read.error();
    }
    self->disarm();
    auto first = std::move(self->notifications.front());
    self->notifications.pop_front();
    co_return first;
}

bool connection::is_open() const noexcept { return impl_->connected; }

bool connection::still_open() noexcept {
    if (!impl_->connected) return false;
    const int ok = PQconsumeInput(impl_->conn);
    impl_->keep_notifications();  // parses what was read
    if (ok == 0 || impl_->farewell || PQstatus(impl_->conn) == CONNECTION_BAD) impl_->close();
    return impl_->connected;
}

void connection::close() noexcept { impl_->close(); }
std::string connection::description() const { return impl_->description; }
int connection::backend_pid() const noexcept { return impl_->connected ? PQbackendPID(impl_->conn) : 0; }

std::string connection::server_setting(const char* name) const {
    const char* value = impl_->connected ? PQparameterStatus(impl_->conn, name) : nullptr;
    return value == nullptr ? std::string{} : std::string{value};
}

}  // namespace outboxd::postgres
