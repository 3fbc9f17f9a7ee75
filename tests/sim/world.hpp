// Role: one simulated outbox: a database, several relays, receivers and writers, and everything that goes wrong between them, all drawn from one seed.
// Promise: the same seed gives the same run; no thread, no socket, no real time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mutations.hpp"
#include "support/relay_process.hpp"

namespace outboxd::sim {

struct world_options {
    std::uint64_t seed{1};
    base::seconds length{3600};
    bool clock_jumps{false};              // the server's clock is moved
    const mutation* broken{nullptr};
    bool stop_at_violation{false};
    std::int64_t trace{0};                // an event whose life is printed
};

struct world_result {
    std::string report;  // empty: every promise was kept
    std::int64_t events{0}, sends{0}, ended{0}, duplicates{0}, lost_claims{0}, crashes{0}, steps{0};
};

class world {
public:
    explicit world(world_options options);
    world_result run();

private:
    enum class temper { good, failing, refusing, hanging, slow, flapping, lying, throttling, gone };
    struct station {  // a process and the network between it and the database
        std::unique_ptr<testkit::relay_process> process;
        base::boot_time cut_until{};
        bool listening{true};
    };

    // The clockwork.
    void plan(base::boot_time when, std::function<void()> what) { plan_.emplace(when, std::move(what)); }
    void plan_in(base::milliseconds in, std::function<void()> what) { plan(now_ + in, std::move(what)); }
    void run_until(base::boot_time end);
    void step_processes();
    [[nodiscard]] double draw() { return std::uniform_real_distribution<double>(0.0, 1.0)(dice_); }
    [[nodiscard]] int draw(int below) { return static_cast<int>(draw() * below); }
    [[nodiscard]] base::milliseconds pause(double mean_seconds) { return base::milliseconds{static_cast<std::int64_t>(std::exponential_distribution<double>(1.0 / mean_seconds)(dice_) * 1000.0) + 1}; }

    // Relays.
    void start_relay();
    void end_relay(std::size_t at);
    [[nodiscard]] std::optional<testkit::store_fault> network(int number, std::string_view call);
    void notify_all(const std::string& payload);
    void sweep_ended();

    // Writers and receivers.
    void set_up_endpoints();
    void write_forever();
    void write_one();
    [[nodiscard]] testkit::fake_event draw_event(const std::string& lane);
    void announce(std::int64_t event, const testkit::fake_event& e, std::set<std::string> lanes);
    [[nodiscard]] testkit::receiver_act receiver(int number, const testkit::sent_request& r);

    // What goes wrong.
    void trouble_forever();
    void trouble();
    void trouble_with_relay();
    void crash(int number, int patience);
    void trouble_outside();
    void calm_down();
    void check_after_calm();

    world_options options_;
    std::mt19937_64 dice_;
    base::boot_time now_{std::chrono::hours{1}};
    base::microseconds server_skew_{0};
    std::multimap<base::boot_time, std::function<void()>> plan_;
    std::shared_ptr<config::config> settings_;
    testkit::fake_database database_;
    testkit::relay_watch watch_;
    std::vector<std::unique_ptr<testkit::relay_process>> graves_;  // late statements of the dead still come
    std::map<int, station> stations_;
    std::map<std::string, temper> tempers_;
    std::vector<std::string> lanes_;
    std::set<std::uint64_t> open_;
    std::set<std::string> poison_;  // events whose sending kills the relay
    int numbers_{0};
    bool calm_{false};
    world_result result_;
};

}  // namespace outboxd::sim
