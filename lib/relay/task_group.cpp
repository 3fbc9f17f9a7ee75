#include "relay/task_group.hpp"

#include <boost/asio/co_spawn.hpp>
#include <exception>

namespace outboxd::relay {

task_group::task_group(asio::any_io_executor executor, ports::time_source& time) : executor_(std::move(executor)), time_(time), empty_(time.make_alarm()) {}

task_group::~task_group() = default;

void task_group::spawn(asio::awaitable<void> work) {
    ++running_;
    asio::co_spawn(executor_, std::move(work), [this](std::exception_ptr error) { ended(std::move(error)); });
}

void task_group::ended(std::exception_ptr error) {
    --running_;
    if (error) {
        try {
            std::rethrow_exception(error);
        } catch (const std::exception& e) {
            if (on_failure_) on_failure_(e.what());
        }
    }
    if (running_ == 0) empty_->ring();
}

asio::awaitable<bool> task_group::drained(base::boot_time until) {
    while (running_ > 0) {
        if (time_.now() >= until) co_return false;
        co_await empty_->wait(until);
    }
    co_return true;
}

}  // namespace outboxd::relay
