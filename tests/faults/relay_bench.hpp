// Role: one relay on an empty outbox, for tests that order one particular fault.
// Promise: the clock moves only by run_for().
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "support/relay_process.hpp"

namespace outboxd::faults {

class relay_bench {
    static std::shared_ptr<config::config> make_settings() {
        auto c = std::make_shared<config::config>();
        c->log.attempts = config::log_attempts::none;
        c->defaults.signing = wire::signing_scheme::none;
        c->defaults.retry = lifecycle::retry_policy{{std::chrono::seconds{1}, std::chrono::seconds{2}, std::chrono::seconds{2}}, base::milliseconds{0}, 2.0, base::milliseconds{0}, 4, 0.0};
        return c;
    }
    base::boot_time now_{std::chrono::hours{1}};
    std::shared_ptr<config::config> settings_{make_settings()};

public:
    using layer_factory = std::function<std::unique_ptr<testkit::store_layer>(ports::delivery_store&)>;
    relay_bench() = default;
    // With something between the relay and its store.
    explicit relay_bench(layer_factory layer) : layer_(std::move(layer)) {}

    testkit::fake_database database{[this] { return base::wall_time{std::chrono::seconds{1'800'000'000}} + std::chrono::duration_cast<base::microseconds>(now_.time_since_epoch()); }};
    testkit::relay_watch watch{database, [this] { return now_; }, {settings_->relay.lease, 4, settings_->relay.max_rescues}};

    testkit::relay_process& process() { return process_; }
    void add_endpoint(const std::string& name) {
        testkit::fake_endpoint e;
        e.row.name = name;
        e.row.url = "https://" + name + ".test/hook";
        e.row.settings = "{}";
        database.add_endpoint(e);
    }
    void pause(const std::string& name, bool yes) {
        database.endpoints.at(name).row.paused = yes;
        database.endpoint_changed();
        process_.notify("endpoint");
        process_.advance_to(now_);
    }
    void insert(const std::string& lane) {
        const testkit::fake_event e;
        watch.committed(database.insert(e), e, {lane});
    }
    void start() {
        process_.run();
        process_.advance_to(now_);
        process_.notify("listening");
        process_.advance_to(now_);
    }
    void run_for(std::chrono::nanoseconds time) {
        const auto end = now_ + time;
        while (process_.next() <= end) {
            now_ = std::max(now_, process_.next());
            process_.advance_to(now_);
        }
        now_ = end;
        process_.advance_to(now_);
    }

private:
    layer_factory layer_;
    testkit::relay_process process_{database, watch, settings_, testkit::process_setup{1, 1, now_, true, layer_}};
};

}  // namespace outboxd::faults
