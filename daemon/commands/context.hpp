// What most commands need first: the configuration and a session with the database, used one call after another. Floor 5.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "commands/command.hpp"
#include "config/load.hpp"
#include "ports/operator_store.hpp"
#include "postgres/connection.hpp"

namespace outboxd::daemon {

// The configuration that --config and --database name. Bad ones: prints every problem on stderr and throws failure(bad_config).
[[nodiscard]] config::config settings_of(const arguments& args, config::secrets which = config::secrets::needed);
void print_problems(const std::vector<config::problem>& problems);
[[nodiscard]] postgres::connect_options connect_options_of(const config::config& settings, std::string purpose);
// `100/s` of defaults.rate_limit for explanations; empty: none.
[[nodiscard]] std::string default_rate_of(const config::config& settings);

// Runs the loop until the call has its answer. Throws base::failure when it failed.
template <class T>
T wait_for(boost::asio::io_context& loop, boost::asio::awaitable<base::result<T>> call) {
    std::optional<base::result<T>> answer;
    std::exception_ptr thrown;
    boost::asio::co_spawn(loop, std::move(call), [&](std::exception_ptr e, base::result<T> r) {
        thrown = e;
        answer = std::move(r);
    });
    loop.restart();
    while (!answer) loop.run_one();
    if (thrown) std::rethrow_exception(thrown);
    if (!*answer) throw base::failure(answer->error());
    if constexpr (!std::is_void_v<T>) return std::move(answer->value());
}

// The operator's store with its own loop. Every call throws base::failure when it fails.
class operator_session {
public:
    explicit operator_session(const config::config& settings);
    // For what only needs the database: secrets that cannot be had here are left out.
    explicit operator_session(const arguments& args) : operator_session(settings_of(args, config::secrets::not_needed)) {}
    ~operator_session();
    operator_session(const operator_session&) = delete;
    operator_session& operator=(const operator_session&) = delete;

    [[nodiscard]] ports::operator_store& store() noexcept { return *store_; }
    [[nodiscard]] const config::config& settings() const noexcept { return settings_; }
    [[nodiscard]] boost::asio::io_context& loop() noexcept { return loop_; }

    template <class T>
    T get(boost::asio::awaitable<base::result<T>> call) {
        return wait_for(loop_, std::move(call));
    }

private:
    config::config settings_;
    boost::asio::io_context loop_;
    std::unique_ptr<ports::operator_store> store_;
};

}  // namespace outboxd::daemon
