// Idle connections by route, and what is remembered of a route. Floor 4, used inside the room only.
#pragma once

#include <boost/intrusive/list.hpp>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/time.hpp"
#include "https/connection.hpp"
#include "https/tls_context.hpp"
#include "ports/https_sender.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::https {

// Two routes are one when address, trust, proxy and TLS profile are equal: only then may they share connections and sessions.
struct route_pool {
    std::shared_ptr<const ports::route> where;
    std::vector<std::shared_ptr<connection>> idle;  // newest last
    std::shared_ptr<session_store> sessions{std::make_shared<session_store>()};
    std::optional<wire::ip_address> last_winner;
    base::boot_time last_used{};
    bool retired{false};  // in no list any more: its connections are not kept
};

struct pool_limits {
    std::size_t idle_per_route{256};
    std::size_t idle_in_all{2048};
    base::milliseconds idle_for{30'000};
};

class connection_pool final : public idle_watcher {
public:
    explicit connection_pool(pool_limits limits) : limits_(limits) {}
    connection_pool(const connection_pool&) = delete;
    connection_pool& operator=(const connection_pool&) = delete;
    ~connection_pool() { close_idle(); }

    [[nodiscard]] std::shared_ptr<route_pool> of(const std::shared_ptr<const ports::route>& where, base::boot_time now);
    // The connection that was used last, or null.
    [[nodiscard]] std::shared_ptr<connection> take(route_pool& route, base::boot_time now);
    // `hint`: seconds of the answer's `Keep-Alive: timeout=N`, -1 when none; one second less is used, since the other side's clock began earlier.
    void give(route_pool& route, std::shared_ptr<connection> which, base::boot_time now, int hint);
    void close_idle();
    // Sessions, last addresses and connections of before are not used again.
    void forget_all();
    // Closes what has been idle for too long, forgets routes that nobody uses. Returns when to come again; nothing when no connection is idle.
    std::optional<base::boot_time> sweep(base::boot_time now);
    [[nodiscard]] bool any_idle() const noexcept { return count_ > 0; }
    [[nodiscard]] std::size_t idle_count() const noexcept { return count_; }
    // When the connection that has been idle longest ends; there is one.
    [[nodiscard]] base::boot_time first_end() const noexcept { return by_age_.front().idle_until(); }

    void idle_ended(connection& which) override;

private:
    struct route_hash {
        std::size_t operator()(const std::shared_ptr<const ports::route>& r) const noexcept;
    };
    struct route_equal {
        bool operator()(const std::shared_ptr<const ports::route>& a, const std::shared_ptr<const ports::route>& b) const noexcept;
    };
    static constexpr std::size_t routes_limit = 8192;

    void drop(connection& which);
    void forget_unused(base::boot_time now);

    pool_limits limits_;
    std::size_t count_{0};
    std::unordered_map<std::shared_ptr<const ports::route>, std::shared_ptr<route_pool>, route_hash, route_equal> routes_;
    boost::intrusive::list<connection, boost::intrusive::constant_time_size<false>> by_age_;  // idle ones, the longest idle first
};

}  // namespace outboxd::https
