#include "postgres/pg_operator_store.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "postgres/operator_rows.hpp"

namespace outboxd::postgres {
namespace {

std::string unhex(std::string_view hex) {
    const auto nibble = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
    std::string bytes;
    bytes.reserve(hex.size() / 2);
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(static_cast<char>(nibble(hex[i]) << 4U | nibble(hex[i + 1])));
    return bytes;
}

}  // namespace

pg_operator_store::pg_operator_store(asio::any_io_executor executor, operator_store_options options)
    : options_(std::move(options)), sql_(options_.schema), connection_(executor), executor_(executor) {}

pg_operator_store::~pg_operator_store() {
    close();
}

void pg_operator_store::close() noexcept {
    closed_ = true;
    connection_.close();
    for (const auto& timer : waiting_) timer->cancel();
}

void pg_operator_store::let_next_in() noexcept {
    busy_ = false;
    if (!waiting_.empty()) waiting_.front()->cancel();
}

asio::awaitable<base::result<query_result>> pg_operator_store::ask(const std::string& sql, params p) {
    const auto give_up = base::boot_clock::now() + options_.deadline;
    if (busy_ && waiting_.size() >= options_.max_waiting) co_return base::make_error(base::errc::database_busy, "too many requests at once; try again");
    if (busy_) {
        auto timer = std::make_shared<asio::steady_timer>(executor_, options_.deadline);
        const auto place = waiting_.insert(waiting_.end(), timer);
        while (busy_ && !closed_ && base::boot_clock::now() < give_up) {
            co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
            if (busy_) timer->expires_after(std::max<base::boot_clock::duration>(give_up - base::boot_clock::now(), base::boot_clock::duration::zero()));
        }
        waiting_.erase(place);
        if (busy_) co_return base::make_error(base::errc::timeout, "the database did not answer in time");
    }
    if (closed_) co_return base::make_error(base::errc::cancelled, "stopping");
    busy_ = true;
    auto reply = co_await ask_in_turn(sql, std::move(p));
    let_next_in();
    co_return reply;
}

asio::awaitable<base::result<query_result>> pg_operator_store::ask_in_turn(const std::string& sql, params p) {
    if (!connection_.is_open()) {
        connect_options how = options_.connect;
        const auto opened = co_await connection_.open(std::move(how), options_.deadline);
        if (!opened) co_return opened.error();
        if (closed_) {
            connection_.close();
            co_return base::make_error(base::errc::cancelled, "stopping");
        }
    }
    auto reply = co_await connection_.query(sql, std::move(p), options_.deadline);
    if (!reply && reply.error().code == base::errc::database_schema) {
        co_return base::error{base::errc::database_schema,
                              reply.error().text + " (is schema \"" + options_.schema + "\" of this version? see 'outboxd migrate --status')",
                              reply.error().sqlstate};
    }
    co_return reply;
}

ports::async_result<ports::status_report> pg_operator_store::status() {
    ports::status_report s;
    s.schema = options_.schema;
    auto r = co_await ask(sql_.totals, params{});
    if (!r) co_return r.error();
    const bool cut = r->integer(0, 3) > 100000;
    s.now = moment_at(*r, 0, 0);
    s.schema_version = static_cast<int>(r->integer(0, 1));
    s.live_estimate = r->integer(0, 2);
    s.due = {r->integer(0, 4), cut};
    s.scheduled = {r->integer(0, 5), cut};
    s.claimed = {r->integer(0, 6), cut};
    s.failed = count_at(*r, 0, 7, 100000);
    s.unrouted = count_at(*r, 0, 8, 100000);
    s.oldest_due_seconds = r->real(0, 9);
    r = co_await ask(sql_.rates, params{});
    if (!r) co_return r.error();
    s.rate_window_seconds = r->real(0, 0);
    s.published_per_second = static_cast<double>(r->integer(0, 1)) / s.rate_window_seconds;
    s.retried_per_second = static_cast<double>(r->integer(0, 2)) / s.rate_window_seconds;
    s.failed_per_second = static_cast<double>(r->integer(0, 3)) / s.rate_window_seconds;
    r = co_await ask(sql_.relays, params{});
    if (!r) co_return r.error();
    s.relays = all_rows<ports::relay_view>(*r, relay_from);
    params hundred;
    hundred.int8(100);
    r = co_await ask(sql_.circuits, hundred);
    if (!r) co_return r.error();
    s.circuits = all_rows<ports::circuit_view>(*r, circuit_from);
    r = co_await ask(sql_.lanes, params{});
    if (!r) co_return r.error();
    for (int row = 0; row < r->rows(); ++row) {
        ports::lane_view v;
        v.lane = r->string(row, 0);
        v.due = count_at(*r, row, 1, 1000);
        v.scheduled = count_at(*r, row, 2, 1000);
        v.keyed = count_at(*r, row, 3, 1000);
        v.failed = count_at(*r, row, 4, 1000);
        v.oldest_due_seconds = r->real(row, 5);
        v.state = r->string(row, 6);
        s.oldest_due_seconds = std::max(s.oldest_due_seconds, v.oldest_due_seconds);
        s.lanes.push_back(std::move(v));
    }
    s.more_lanes = s.lanes.size() > 200;
    r = co_await ask(sql_.blocked_keys, hundred);
    if (!r) co_return r.error();
    for (int row = 0; row < r->rows(); ++row) {
        s.blocked.push_back({r->string(row, 0), r->string(row, 1), r->string(row, 2), r->integer(row, 3), r->integer(row, 4), count_at(*r, row, 5, 1000)});
    }
    co_return s;
}

ports::async_result<std::int64_t> pg_operator_store::find_event(std::string text) {
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    params p;
    p.text(std::string_view{text});
    if (fault == std::errc{} && end == text.data() + text.size()) {
        p.int8(number);
    } else {
        p.null();
    }
    const auto r = co_await ask(sql_.find_event, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no event with id '" + text + "'");
    co_return r->integer(0, 0);
}

ports::async_result<std::vector<ports::delivery_facts>> pg_operator_store::why(std::int64_t event) {
    params p;
    p.int8(event);
    const auto r = co_await ask(sql_.why, std::move(p));
    if (!r) co_return r.error();
    co_return all_rows<ports::delivery_facts>(*r, facts_from);
}

ports::async_result<std::vector<ports::event_view>> pg_operator_store::list_events(ports::event_filter filter) {
    params p;
    p.int8(filter.before).text(filter.type).text(filter.tenant);
    put_moment(p, filter.since);
    put_moment(p, filter.until);
    p.text(filter.endpoint).text(filter.status).int8(filter.limit);
    const auto r = co_await ask(sql_.list_events, std::move(p));
    if (!r) co_return r.error();
    co_return all_rows<ports::event_view>(*r, event_from);
}

ports::async_result<ports::event_view> pg_operator_store::show_event(std::int64_t event) {
    params p;
    p.int8(event);
    const auto r = co_await ask(sql_.show_event, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no event with id " + std::to_string(event));
    co_return event_from(*r, 0);
}

ports::async_result<ports::event_body> pg_operator_store::body(std::int64_t event) {
    params p;
    p.int8(event);
    const auto r = co_await ask(sql_.body, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no event with id " + std::to_string(event));
    co_return ports::event_body{r->boolean(0, 0), unhex(r->text(0, 1))};
}

ports::async_result<std::vector<ports::delivery_view>> pg_operator_store::list_deliveries(ports::delivery_filter filter) {
    params p;
    p.int8(filter.after).text(filter.endpoint).text(filter.lane).text(filter.status);
    if (filter.event) {
        const auto event = co_await find_event(*filter.event);
        if (!event) co_return event.error();
        p.int8(*event);
    } else {
        p.null();
    }
    p.int8(filter.limit);
    const auto r = co_await ask(sql_.list_deliveries, std::move(p));
    if (!r) co_return r.error();
    co_return all_rows<ports::delivery_view>(*r, delivery_from);
}

ports::async_result<std::vector<ports::attempt_view>> pg_operator_store::attempts_of_event(std::int64_t event, int limit) {
    params p;
    p.int8(event).int8(limit);
    const auto r = co_await ask(sql_.attempts_of_event, std::move(p));
    if (!r) co_return r.error();
    co_return all_rows<ports::attempt_view>(*r, attempt_from);
}

ports::async_result<std::int64_t> pg_operator_store::event_of_delivery(std::int64_t delivery) {
    params p;
    p.int8(delivery);
    auto r = co_await ask(sql_.event_of_live_delivery, p);
    if (!r) co_return r.error();
    if (r->rows() == 0) r = co_await ask(sql_.event_of_finished_delivery, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no delivery with id " + std::to_string(delivery));
    co_return r->integer(0, 0);
}

ports::async_result<std::vector<ports::circuit_view>> pg_operator_store::list_circuits() {
    params p;
    p.int8(1000);
    const auto r = co_await ask(sql_.circuits, std::move(p));
    if (!r) co_return r.error();
    co_return all_rows<ports::circuit_view>(*r, circuit_from);
}

ports::async_result<std::vector<ports::relay_view>> pg_operator_store::list_relays() {
    const auto r = co_await ask(sql_.relays, params{});
    if (!r) co_return r.error();
    co_return all_rows<ports::relay_view>(*r, relay_from);
}

}  // namespace outboxd::postgres
