#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>

#include "postgres/connection.hpp"

namespace outboxd::postgres {

struct blocking_connection::parts {
    asio::io_context loop{1};
    connection inner{loop.get_executor()};

    template <class T>
    base::result<T> run(asio::awaitable<base::result<T>> work) {
        std::optional<base::result<T>> answer;
        std::exception_ptr thrown;
        asio::co_spawn(loop, std::move(work), [&](std::exception_ptr e, base::result<T> r) {
            thrown = e;
            answer.emplace(std::move(r));
        });
        loop.restart();
        loop.run();
        if (thrown) std::rethrow_exception(thrown);
        return std::move(*answer);
    }
};

blocking_connection::blocking_connection() : parts_(std::make_unique<parts>()) {}
blocking_connection::~blocking_connection() = default;
blocking_connection::blocking_connection(blocking_connection&&) noexcept = default;
blocking_connection& blocking_connection::operator=(blocking_connection&&) noexcept = default;

base::result<void> blocking_connection::open(connect_options options, base::milliseconds deadline) { return parts_->run<void>(parts_->inner.open(std::move(options), deadline)); }

base::result<query_result> blocking_connection::query(std::string_view sql, params p, base::milliseconds deadline, result_format format) {
    return parts_->run<query_result>(parts_->inner.query(sql, std::move(p), deadline, format));
}

base::result<query_result> blocking_connection::script(std::string_view sql, base::milliseconds deadline) { return parts_->run<query_result>(parts_->inner.script(sql, deadline)); }

void blocking_connection::close() noexcept { parts_->inner.close(); }
std::string blocking_connection::description() const { return parts_->inner.description(); }

}  // namespace outboxd::postgres
