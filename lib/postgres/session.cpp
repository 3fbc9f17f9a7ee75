#include "postgres/session.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "telemetry/log.hpp"

namespace outboxd::postgres {

namespace {

using steady = std::chrono::steady_clock;
constexpr base::milliseconds longest_connect{10'000};
// A call that finds the database away tells its caller after so long, that readiness may tell others; the back-off goes on over several calls.
constexpr base::milliseconds longest_silence{2'000};

base::milliseconds until(steady::time_point end) { return std::max(std::chrono::duration_cast<base::milliseconds>(end - steady::now()), base::milliseconds{0}); }

bool connection_is_gone(const connection& c) { return !c.is_open(); }

}  // namespace

// A coroutine in the queue for its turn; lives in that coroutine's frame and leaves the queue with it.
struct session::waiter {
    waiter(session& s, time_point end) : owner(s), timer(s.pause_.get_executor(), end) { owner.waiters_.push_back(this); }
    ~waiter() { std::erase(owner.waiters_, this); }
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    session& owner;
    asio::steady_timer timer;
    bool granted{false};
};

class session::turn {
public:
    explicit turn(session& s) : owner_(s) {}
    ~turn() { owner_.end_turn(); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

private:
    session& owner_;
};

session::session(asio::any_io_executor executor, connect_options options) : options_(std::move(options)), connection_(executor), pause_(executor) {}

base::error session::aborted() { return base::make_error(base::errc::cancelled, "the wait for the database was ended"); }

asio::awaitable<bool> session::take_turn(time_point end) {
    if (!taken_) {
        taken_ = true;
        co_return true;
    }
    waiter me{*this, end};
    co_await me.timer.async_wait(asio::as_tuple(asio::use_awaitable));
    co_return me.granted;
}

void session::end_turn() noexcept {
    if (waiters_.empty()) {
        taken_ = false;
        return;
    }
    auto* next = waiters_.front();
    waiters_.pop_front();
    next->granted = true;
    next->timer.cancel();
}

void session::note(session_event event, const std::optional<base::error>& why) {
    const auto next = state_.step(event, random());
    if (why) last_fault_ = *why;
    if (event == session_event::served) served_ = true;
    if (event == session_event::connected) served_ = false;
    if (next.pause.count() > 0) retry_at_ = steady::now() + next.pause;
    if (next.report_down && why) {
        telemetry::log(telemetry::level::warn, "database_down", why->text, {{"session", options_.purpose}, {"code", base::to_string(why->code)}, {"sqlstate", why->sqlstate}});
    } else if (why && state_.down()) {
        telemetry::log_limited(telemetry::level::debug, "database_still_down", options_.purpose, why->text, {{"session", options_.purpose}, {"failures", std::int64_t{state_.failures()}}});
    }
    if (next.report_up) telemetry::log(telemetry::level::info, "database_up", connection_.description(), {{"session", options_.purpose}});
}

asio::awaitable<base::result<void>> session::connect(base::milliseconds deadline) {
    auto opened = co_await connection_.open(options_, deadline);
    if (!opened) co_return opened.error();
    auto isolation = co_await connection_.query("SELECT current_setting('default_transaction_isolation')", {}, deadline);
    if (!isolation) {
        connection_.close();
        co_return isolation.error();
    }
    read_committed_ = isolation->text(0, 0) == "read committed";
    ++connects_;
    co_return base::result<void>{};
}

// Connects, and between failed tries waits out the back-off, until it stands or `end` has come.
asio::awaitable<std::optional<base::error>> session::make_ready(time_point end) {
    const auto tell_at = steady::now() + longest_silence;
    for (;;) {
        if (aborted_) co_return aborted();
        if (state_.phase() == session_phase::ready && !connection_.still_open()) {
            // No fault when it served before: idle timeouts and pooler restarts cost nobody anything. One that ends before it ever serves is.
            const auto why = base::make_error(base::errc::database_unreachable, "the server ended the idle session (" + connection_.description() + ")");
            note(served_ ? session_event::closed : session_event::lost, served_ ? std::nullopt : std::optional{why});
        }
        if (state_.phase() == session_phase::ready) co_return std::nullopt;
        if (state_.phase() == session_phase::backing_off) {
            pause_.expires_at(std::min(retry_at_, end));
            co_await pause_.async_wait(asio::as_tuple(asio::use_awaitable));
            if (aborted_) co_return aborted();
            if (steady::now() < retry_at_) co_return last_fault_.value_or(aborted());
            note(session_event::pause_over, std::nullopt);
        }
        if (until(end).count() == 0) co_return last_fault_.value_or(base::make_error(base::errc::timeout, "no time was left to connect to the database"));
        note(session_event::wanted, std::nullopt);
        auto made = co_await connect(std::min(until(end), longest_connect));
        if (aborted_) co_return aborted();
        note(made ? session_event::connected : session_event::connect_failed, made ? std::nullopt : std::optional{made.error()});
        if (!made && steady::now() >= tell_at) co_return std::move(made.error());
    }
}

asio::awaitable<base::result<query_result>> session::run_read_committed(std::string_view sql, params p, base::milliseconds deadline, result_format format) {
    auto begun = co_await connection_.script("BEGIN ISOLATION LEVEL READ COMMITTED", deadline);
    if (!begun) co_return begun.error();
    auto answer = co_await connection_.query(sql, std::move(p), deadline, format);
    if (!connection_.is_open()) co_return answer;
    auto ended = co_await connection_.script(answer ? "COMMIT" : "ROLLBACK", deadline);
    if (!ended) {
        connection_.close();  // whether it was committed is not known, and the transaction must not stay open
        co_return ended.error();
    }
    co_return answer;
}

asio::awaitable<base::result<query_result>> session::run(std::string_view sql, params p, base::milliseconds deadline, result_format format) {
    if (read_committed_) {
        auto answer = co_await connection_.query(sql, std::move(p), deadline, format);
        co_return answer;
    }
    auto answer = co_await run_read_committed(sql, std::move(p), deadline, format);
    co_return answer;
}

asio::awaitable<base::result<query_result>> session::query(std::string_view sql, params p, base::milliseconds deadline, result_format format) {
    const auto end = steady::now() + deadline;
    if (aborted_) co_return aborted();
    const bool mine = co_await take_turn(end);
    if (!mine) co_return aborted_ ? aborted() : base::make_error(base::errc::timeout, "the database session was busy until the deadline");
    const turn hold{*this};
    auto unready = co_await make_ready(end);
    if (unready) co_return std::move(*unready);
    auto answer = co_await run(sql, std::move(p), deadline, format);
    if (aborted_) co_return aborted();
    if (connection_is_gone(connection_)) {
        if (answer) co_return answer;
        note(session_event::lost, answer.error());
        co_return answer.error();
    }
    note(session_event::served, std::nullopt);
    co_return answer;
}

asio::awaitable<base::result<query_result>> session::script(std::string_view sql, base::milliseconds deadline) {
    const auto end = steady::now() + deadline;
    if (aborted_) co_return aborted();
    const bool mine = co_await take_turn(end);
    if (!mine) co_return aborted_ ? aborted() : base::make_error(base::errc::timeout, "the database session was busy until the deadline");
    const turn hold{*this};
    auto unready = co_await make_ready(end);
    if (unready) co_return std::move(*unready);
    auto answer = co_await connection_.script(sql, deadline);
    if (aborted_) co_return aborted();
    if (connection_is_gone(connection_) && !answer) {
        note(session_event::lost, answer.error());
        co_return answer.error();
    }
    note(session_event::served, std::nullopt);
    co_return answer;
}

void session::abort() {
    aborted_ = true;
    pause_.cancel();
    for (auto* w : waiters_) w->timer.cancel();
    connection_.close();
    note(session_event::closed, std::nullopt);
}

void session::close() {
    if (taken_) return;
    connection_.close();
    note(session_event::closed, std::nullopt);
}

}  // namespace outboxd::postgres
