#include <boost/asio/io_context.hpp>

#include "postgres/connection.hpp"
#include "postgres/run_until_done.hpp"

namespace outboxd::postgres {

struct blocking_connection::parts {
    asio::io_context loop{1};
    connection inner{loop.get_executor()};
};

blocking_connection::blocking_connection() : parts_(std::make_unique<parts>()) {}
blocking_connection::~blocking_connection() = default;
blocking_connection::blocking_connection(blocking_connection&&) noexcept = default;
blocking_connection& blocking_connection::operator=(blocking_connection&&) noexcept = default;

base::result<void> blocking_connection::open(connect_options options, base::milliseconds deadline) {
    return run_until_done<void>(parts_->loop, parts_->inner.open(std::move(options), deadline));
}

base::result<query_result> blocking_connection::query(std::string_view sql, params p, base::milliseconds deadline, result_format format) {
    return run_until_done<query_result>(parts_->loop, parts_->inner.query(sql, std::move(p), deadline, format));
}

base::result<query_result> blocking_connection::script(std::string_view sql, base::milliseconds deadline) {
    return run_until_done<query_result>(parts_->loop, parts_->inner.script(sql, deadline));
}

void blocking_connection::close() noexcept { parts_->inner.close(); }
std::string blocking_connection::description() const { return parts_->inner.description(); }

}  // namespace outboxd::postgres
