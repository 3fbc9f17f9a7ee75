// From a route to a connection that is ready for a request: policy, lookup, TCP, proxy, TLS. Floor 4, used inside the room only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "https/attempt.hpp"
#include "https/connection.hpp"
#include "https/connection_pool.hpp"
#include "https/fault.hpp"
#include "https/resolver.hpp"
#include "https/tls_context.hpp"
#include "lifecycle/settlement.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::https {

struct egress {
    wire::egress_policy policy;
    bool allow_http{false};
    std::vector<std::string> no_proxy;
};

struct opened {
    std::shared_ptr<https::connection> connection;  // null: see fault; both empty when the attempt was stopped
    https::fault fault;
};

class opener {
public:
    opener(boost::asio::io_context& context, resolver_options names, base::milliseconds lookup_timeout, const egress& rules)
        : context_(context), resolver_(context, std::move(names)), lookup_timeout_(lookup_timeout), egress_(rules) {}

    // The attempt's phase and limit are kept up to date on the way.
    [[nodiscard]] boost::asio::awaitable<opened> open(std::shared_ptr<const ports::route> where, std::shared_ptr<route_pool> pool, attempt& who,
                                                      lifecycle::phase_times& times);
    [[nodiscard]] https::resolver& resolver() noexcept { return resolver_; }
    void reload() { contexts_.forget(); }

private:
    // Every step returns its fault, or an empty one: then who.ended tells whether to go on.
    struct way;
    boost::asio::awaitable<fault> all_steps(way& w);
    boost::asio::awaitable<fault> find(way& w, std::string host, bool host_is_address);
    boost::asio::awaitable<fault> find_behind_proxy(way& w);
    boost::asio::awaitable<fault> dial(way& w, std::uint16_t port);
    boost::asio::awaitable<fault> ask_proxy(way& w, std::string head);
    boost::asio::awaitable<fault> secure(way& w);
    [[nodiscard]] fault check_addresses(const way& w) const;

    boost::asio::io_context& context_;
    https::resolver resolver_;
    base::milliseconds lookup_timeout_;
    const egress& egress_;
    tls_contexts contexts_;
};

}  // namespace outboxd::https
