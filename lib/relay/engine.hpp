// What the parts of one relay share: identity, lease, lanes, and the doors to the outside. Floor 4.
#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"
#include "lifecycle/lease.hpp"
#include "ports/delivery_store.hpp"
#include "ports/https_sender.hpp"
#include "ports/time_source.hpp"
#include "ports/wakeup.hpp"
#include "relay/dispatcher.hpp"
#include "relay/endpoint_directory.hpp"
#include "relay/settler.hpp"
#include "relay/task_group.hpp"
#include "telemetry/metrics.hpp"

namespace outboxd::relay {

struct engine {
    engine(asio::any_io_executor executor, std::shared_ptr<const config::config> configuration, ports::delivery_store& the_store, ports::https_sender& the_sender, ports::time_source& the_time,
           telemetry::metrics& the_metrics)
        : settings(std::move(configuration)),
          store(the_store),
          sender(the_sender),
          time(the_time),
          metrics(the_metrics),
          group(std::move(executor), the_time),
          lease(settings->relay.lease),
          endpoints(settings),
          lanes(dispatcher_limits{settings->relay.max_in_flight, settings->relay.max_in_flight_bytes}, lease, the_time),
          settlements(the_store, the_time, the_metrics) {}

    std::shared_ptr<const config::config> settings;
    ports::delivery_store& store;
    ports::https_sender& sender;
    ports::time_source& time;
    telemetry::metrics& metrics;
    task_group group;
    lifecycle::lease lease;
    endpoint_directory endpoints;
    dispatcher lanes;
    settler settlements;

    std::int64_t relay_id{0};       // 0: not registered
    int epoch{0};
    int live_relays{1};
    bool listening{false};
    bool ready{false};              // schema checked, endpoints loaded, registered
    bool stopping{false};           // claim no more
    base::boot_time endpoints_read_at{};  // when the latest reading of all endpoints began
    std::string not_ready_reason{"starting"};

    // The server's clock, carried on by the local one since the last reply that told it.
    void server_clock(base::wall_time server, base::boot_time local) noexcept {
        server_at_ = server;
        local_at_ = local;
    }
    [[nodiscard]] base::wall_time server_now() const noexcept { return server_at_ + std::chrono::duration_cast<base::microseconds>(time.now() - local_at_); }

private:
    base::wall_time server_at_{};
    base::boot_time local_at_{};
};

}  // namespace outboxd::relay
