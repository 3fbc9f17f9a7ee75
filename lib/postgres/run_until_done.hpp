// Runs one coroutine to its end on a loop of its own: for commands, which have nothing else to do. Floor 4 (postgres). Not for the daemon's loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>

#include "base/error.hpp"

namespace outboxd::postgres {

template <class T>
[[nodiscard]] base::result<T> run_until_done(boost::asio::io_context& loop, boost::asio::awaitable<base::result<T>> work) {
    std::optional<base::result<T>> answer;
    std::exception_ptr thrown;
    boost::asio::co_spawn(loop, std::move(work), [&](std::exception_ptr e, base::result<T> r) {
        thrown = e;
        answer.emplace(std::move(r));
    });
    loop.restart();
    loop.run();
    if (thrown) std::rethrow_exception(thrown);
    return std::move(*answer);
}

}  // namespace outboxd::postgres
