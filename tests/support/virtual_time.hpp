// A clock that moves only when told: tests and the simulation own the time. Alarms fire in the order of their moments.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>
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
        while (!waiting_.empty() && waiting_.begin()->until <= now_) {
            auto* const due = waiting_.begin()->alarm;
            waiting_.erase(waiting_.begin());
            due->expire();
        }
    }
    // Runs everything that is ready at this moment. Throws when that does not end: something spins without waiting.
    void settle() {
        constexpr int most_steps = 5'000'000;
        context_.restart();
        for (int n = 0; context_.poll_one() > 0; ++n) {
            if (n == most_steps) throw std::runtime_error("something spins: millions of steps without time passing");
        }
    }
    // Runs, and jumps from alarm to alarm, until `done` or `until`. False: until was reached, or nothing waits any more.
    template <class Done>
    bool run_until(Done done, base::boot_time until) {
        while (true) {
            settle();
            if (done()) return true;
            if (waiting_.empty() || waiting_.begin()->until > until) {
                advance_to(until);
                settle();
                return done();
            }
            advance_to(waiting_.begin()->until);
        }
    }

    // When the next alarm is due; max(): none waits for a moment.
    [[nodiscard]] base::boot_time next() const noexcept { return waiting_.empty() ? base::boot_time::max() : waiting_.begin()->until; }

    std::chrono::microseconds wall_skew{0};  // the daemon's wall clock may be wrong

private:
    class virtual_alarm;
    // Alarms of one moment go off in the order in which they were made, so that a seed tells the whole run.
    struct waiter {
        base::boot_time until;
        std::uint64_t number;
        virtual_alarm* alarm;
        bool operator<(const waiter& other) const noexcept { return std::tie(until, number) < std::tie(other.until, other.number); }
    };
    class virtual_alarm : public ports::alarm {
    public:
        explicit virtual_alarm(virtual_time& owner) : owner_(owner), event_(owner.context_), number_(++owner.alarms_) {}
        ~virtual_alarm() override { owner_.waiting_.erase(entry()); }

        boost::asio::awaitable<bool> wait(base::boot_time until) override {
            if (!rung_ && owner_.now() < until) {
                until_ = until;
                owner_.waiting_.insert(entry());
                event_.expires_at(boost::asio::steady_timer::time_point::max());
                co_await event_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
                owner_.waiting_.erase(entry());
            }
            co_return std::exchange(rung_, false);
        }
        void ring() override {
            rung_ = true;
            event_.cancel();
        }
        void expire() { event_.cancel(); }

    private:
        [[nodiscard]] waiter entry() { return {until_, number_, this}; }
        virtual_time& owner_;
        boost::asio::steady_timer event_;
        std::uint64_t number_;
        base::boot_time until_{};
        bool rung_{false};
    };

    boost::asio::io_context& context_;
    std::mt19937_64 generator_;
    base::boot_time now_{std::chrono::hours{1}};
    std::uint64_t alarms_{0};
    std::set<waiter> waiting_;
};

}  // namespace outboxd::tests
