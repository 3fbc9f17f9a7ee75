#include "https/probe.hpp"

#include <boost/asio/steady_timer.hpp>

#include "https/connection_pool.hpp"
#include "https/opener.hpp"

namespace outboxd::https {
namespace {

// Looks at the attempt's limit as the sender's clock does. Shared with the timer's handler, which may run once more after the end.
struct watch : std::enable_shared_from_this<watch> {
    watch(boost::asio::io_context& context, attempt& who) : timer(context), watched(&who) {}
    boost::asio::steady_timer timer;
    attempt* watched;

    void turn() {
        timer.expires_after(std::chrono::milliseconds{10});
        timer.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
            if (ec || self->watched == nullptr) return;
            if (base::boot_clock::now() >= self->watched->limit) self->watched->stop(attempt::end::timed_out);
            self->turn();
        });
    }
    void end() {
        watched = nullptr;
        timer.cancel();
    }
};

const char* doing(phase p) {
    switch (p) {
        case phase::lookup: return "timed out looking up the host";
        case phase::tls: return "timed out in the TLS handshake";
        case phase::connect: return "timed out connecting";
        case phase::start: return "timed out before it began";
        default: return "timed out at the proxy";
    }
}

}  // namespace

boost::asio::awaitable<ports::send_reply> probe(boost::asio::io_context& context, sender_options options, std::shared_ptr<const ports::route> where,
                                                base::boot_time deadline) {
    ports::send_reply reply;
    const egress rules{std::move(options.policy), options.allow_http, std::move(options.no_proxy)};
    resolver_options names;
    names.threads = 1;
    opener way(context, std::move(names), options.lookup_timeout, rules);
    connection_pool pool{pool_limits{}};
    attempt self;
    self.started = base::boot_clock::now();
    self.deadline = self.limit = deadline;
    const auto clock = std::make_shared<watch>(context, self);
    clock->turn();
    const std::shared_ptr<route_pool> route = pool.of(where, self.started);
    opened fresh = co_await way.open(where, route, self, reply.phases);
    clock->end();
    way.resolver().close();
    if (fresh.connection) {
        reply.complete = true;
        fresh.connection->close();
    } else if (fresh.fault) {
        reply.error_class = fresh.fault.error_class;
        reply.error = fresh.fault.text;
        reply.own_fault = fresh.fault.own;
    } else {
        reply.error_class = lifecycle::error_class::timeout;
        reply.error = doing(self.phase);
    }
    co_return reply;
}

}  // namespace outboxd::https
