// A clock that moves only when told: tests and the simulation own the time. Alarms fire in the order of their moments.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <random>
#include <set>
#include <utility>

#include "ports/time_source.hpp"

namespace outboxd::tests {

class virtual_time : public ports::time_source {
public:
    virtual_time(boost::asio::io_context& context, std::uint64_t seed) : context_(context), generator_(seed) {}

    [[nodiscard]] base::boot_time now() const noexcept override { return now_; }
    [[nodiscard]] base::wall_time wall_now() const noexcept override {
        return base::wall_time{std::chrono::seconds{1'800'000'000}} + std::chrono::duration_cast<base::microseconds>(now_.time_since_epoch()) + wall_skew;
    }
    [[nodiscard]] double random() override { return std::uniform_real_distribution<double>(0.0, 1.0)(generator_); }
    [[nodiscard]] std::unique_ptr<ports::alarm> make_alarm() override { return std::make_unique<virtual_alarm>(*this); }

    void advance(std::chrono::nanoseconds by) { advance_to(now_ + by); }
    void advance_to(base::boot_time t) {
        now_ = std::max(now_, t);
        while (!waiting_.empty() && waiting_.begin()->first <= now_) {
            auto* const due = waiting_.begin()->second;
            waiting_.erase(waiting_.begin());
            due->expire();
        }
    }
    // Runs everything that is ready at this moment.
    void settle() {
        do context_.restart();
        while (context_.poll() > 0);
    }
    // Runs, and jumps from alarm to alarm, until `done` or `until`. False: until was reached, or nothing waits any more.
    template <class Done>
    bool run_until(Done done, base::boot_time until) {
        while (true) {
            settle();
            if (done()) return true;
            if (waiting_.empty() || waiting_.begin()->first > until) {
                advance_to(until);
                settle();
                return done();
            }
            advance_to(waiting_.begin()->first);
        }
    }

    std::chrono::microseconds wall_skew{0};  // the daemon's wall clock may be wrong

private:
    class virtual_alarm : public ports::alarm {
    public:
        explicit virtual_alarm(virtual_time& owner) : owner_(owner), event_(owner.context_) {}
        ~virtual_alarm() override { owner_.waiting_.erase({until_, this}); }

        boost::asio::awaitable<bool> wait(base::boot_time until) override {
            if (!rung_ && owner_.now() < until) {
                until_ = until;
                owner_.waiting_.insert({until, this});
                event_.expires_at(boost::asio::steady_timer::time_point::max());
                co_await event_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
                owner_.waiting_.erase({until, this});
            }
            co_return std::exchange(rung_, false);
        }
        void ring() override {
            rung_ = true;
            event_.cancel();
        }
        void expire() { event_.cancel(); }

    private:
        virtual_time& owner_;
        boost::asio::steady_timer event_;
        base::boot_time until_{};
        bool rung_{false};
    };

    boost::asio::io_context& context_;
    std::mt19937_64 generator_;
    base::boot_time now_{std::chrono::hours{1}};
    std::set<std::pair<base::boot_time, virtual_alarm*>> waiting_;
};

}  // namespace outboxd::tests
