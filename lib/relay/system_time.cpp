#include "relay/system_time.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace outboxd::relay {

namespace asio = boost::asio;

namespace {

// Timers run on the steady clock, which stands still while the machine sleeps; a wait is therefore never longer than this before the boot clock is read again.
constexpr auto longest_wait = std::chrono::seconds{30};

class system_alarm : public ports::alarm {
public:
    explicit system_alarm(const asio::any_io_executor& executor) : timer_(executor) {}

    asio::awaitable<bool> wait(base::boot_time until) override {
        while (!rung_) {
            const auto now = base::boot_clock::now();
            if (now >= until) co_return false;
            timer_.expires_after(until - now > longest_wait ? std::chrono::nanoseconds{longest_wait} : until - now);
            co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
        }
        rung_ = false;
        co_return true;
    }
    void ring() override {
        rung_ = true;
        timer_.cancel();
    }

private:
    asio::steady_timer timer_;
    bool rung_{false};
};

}  // namespace

system_time::system_time(asio::any_io_executor executor) : executor_(std::move(executor)), generator_(std::random_device{}()) {}

base::boot_time system_time::now() const noexcept { return base::boot_clock::now(); }

base::wall_time system_time::wall_now() const noexcept { return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()); }

double system_time::random() { return std::uniform_real_distribution<double>(0.0, 1.0)(generator_); }

std::unique_ptr<ports::alarm> system_time::make_alarm() { return std::make_unique<system_alarm>(executor_); }

}  // namespace outboxd::relay
