// Every coroutine of the relay lives in a task_group: nothing is detached, and the end is waited for. Floor 4.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string_view>

#include "ports/time_source.hpp"

namespace outboxd::relay {

namespace asio = boost::asio;

class task_group {
public:
    task_group(asio::any_io_executor executor, ports::time_source& time);
    ~task_group();
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;

    // Runs `work` to its end. An exception that leaves it is a broken invariant: it is reported through on_failure and the group goes on.
    void spawn(asio::awaitable<void> work);
    void on_failure(std::function<void(std::string_view)> handler) { on_failure_ = std::move(handler); }
    [[nodiscard]] std::size_t size() const noexcept { return running_; }
    // Returns when nothing runs any more (true), or at `until` (false).
    [[nodiscard]] asio::awaitable<bool> drained(base::boot_time until);

private:
    void ended(std::exception_ptr error);
    asio::any_io_executor executor_;
    ports::time_source& time_;
    std::unique_ptr<ports::alarm> empty_;
    std::function<void(std::string_view)> on_failure_;
    std::size_t running_{0};
};

}  // namespace outboxd::relay
