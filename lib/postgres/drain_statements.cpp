#include "postgres/drain_statements.hpp"

namespace outboxd::postgres {

namespace {

constexpr auto open_deadline = std::chrono::seconds{10};
constexpr auto count_deadline = std::chrono::seconds{60};

// No locks: a plain read. A row counts as scheduled only by its event's own deliver_at, never by a retry's pause.
std::string remainder_sql(const std::string& schema) {
    return "SELECT count(*) FILTER (WHERE NOT waits), count(*) FILTER (WHERE waits) FROM (SELECT d.status = 'pending' AND d.attempts = 0 AND d.due_at > clock_timestamp() AND "
           "e.deliver_at > clock_timestamp() IS TRUE AS waits FROM " +
           schema + ".delivery d LEFT JOIN " + schema + ".event e ON e.id = d.event WHERE d.status <> 'failed') s";
}

}  // namespace

asio::awaitable<base::result<drain_remainder>> count_drain_remainder(asio::any_io_executor executor, connect_options options, std::string schema) {
    connection session(std::move(executor));
    auto opened = co_await session.open(std::move(options), open_deadline);
    if (!opened) co_return opened.error();
    params none;
    const std::string sql = remainder_sql(schema);
    auto answer = co_await session.query(sql, std::move(none), count_deadline);
    if (!answer) co_return answer.error();
    drain_remainder result;
    result.remaining = std::stoll(std::string(answer->text(0, 0)));
    result.scheduled = std::stoll(std::string(answer->text(0, 1)));
    co_return result;
}

}  // namespace outboxd::postgres
