// Role: one scenario of the fault sweep: a relay with every kind of delivery in front of it, of which one effect (a call of the store, a request) goes wrong.
// Promise: the same run for the same arguments; what was broken is in report().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/relay_process.hpp"

namespace outboxd::faults {

enum class fault {
    none,
    error,         ///< the database is not reached; a request meets a dead connection
    refusal,       ///< the database answers with an error of its own; a receiver answers 500
    late,          ///< nothing happens until after the deadline
    reply_lost,    ///< it was done, and nobody was told
    crash_before,  ///< kill -9 before it was done
    crash_after,   ///< kill -9 after it was done and before the reply was seen
    stop,          ///< the first signal comes at this moment
    abort,         ///< both signals come at this moment
};
[[nodiscard]] std::string name_of(fault f);

class stage {
public:
    /// The n-th effect meets `f`.
    stage(fault f, int n);
    /// `drains`: the relay under test is `outboxd drain`, not `run`. Then a healthy relay finishes what is left.
    void play(bool drains);
    [[nodiscard]] int effects() const noexcept { return effects_; }
    [[nodiscard]] const std::string& hit() const noexcept { return hit_; }
    /// Empty: every promise was kept.
    [[nodiscard]] std::string report() const;

private:
    using edit = std::function<void(testkit::fake_event&)>;
    void insert(const std::string& lane, const std::string& body, const edit& change = {});
    void set_up_endpoints();
    void insert_first();
    void insert_later();
    std::unique_ptr<testkit::relay_process> make_process(int number);
    [[nodiscard]] bool strikes(std::string_view what);
    [[nodiscard]] std::optional<testkit::store_fault> store_meets(std::string_view call);
    [[nodiscard]] testkit::receiver_act receiver_does(const testkit::sent_request& r);
    void signal_if_due();
    void play_until(base::boot_time end);
    void stop_and_wait();
    void finish_with_a_healthy_relay();

    fault fault_;
    int at_;
    int effects_{0};
    std::string hit_;
    std::string trouble_;
    bool struck_{false};
    base::boot_time begun_{std::chrono::hours{1}};
    base::boot_time now_{begun_};
    std::shared_ptr<config::config> settings_;
    testkit::fake_database database_;
    testkit::relay_watch watch_;
    std::unique_ptr<testkit::relay_process> process_;
};

}  // namespace outboxd::faults
