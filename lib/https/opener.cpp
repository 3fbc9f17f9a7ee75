#include "https/opener.hpp"

#include <algorithm>

#include "https/connect_race.hpp"
#include "https/proxy.hpp"

namespace outboxd::https {

namespace asio = boost::asio;
using lifecycle::error_class;

namespace {

// Behind a proxy the local lookup only helps the address policy, so it may not take long.
constexpr auto courtesy_lookup = std::chrono::seconds{1};

int milliseconds_since(base::boot_time begun) {
    return static_cast<int>(std::chrono::duration_cast<base::milliseconds>(base::boot_clock::now() - begun).count());
}

fault blocked(const ports::route& where, const std::string& reason) {
    return make_fault(error_class::blocked, host_and_port(where.address) + " is not allowed by the address policy: " + reason);
}

}  // namespace

// What the steps of one opening share.
struct opener::way {
    std::shared_ptr<const ports::route> where;
    std::shared_ptr<route_pool> pool;
    attempt& who;
    lifecycle::phase_times& times;
    base::boot_time limit;                    // of the whole opening
    std::vector<wire::ip_address> addresses;  // of the receiver, or of the proxy
    std::shared_ptr<https::connection> connection;
    bool through_proxy{false};

    [[nodiscard]] bool stopped() const noexcept { return who.ended != attempt::end::none; }
};

asio::awaitable<opened> opener::open(std::shared_ptr<const ports::route> where, std::shared_ptr<route_pool> pool, attempt& who, lifecycle::phase_times& times) {
    const auto limit = std::min(who.deadline, base::boot_clock::now() + where->connect_timeout);
    way w{std::move(where), std::move(pool), who, times, limit, {}, {}, false};
    who.limit = limit;
    fault what = co_await all_steps(w);
    opened result;
    if (!what && !w.stopped()) {
        // The other side may say goodbye right after the handshake; without a word, here.
        if (w.connection->open())
            result.connection = std::move(w.connection);
        else
            what =
                make_fault(error_class::connect, "the connection to " + host_and_port(w.where->address) + " was closed by the other side before the request");
        who.limit = who.deadline;
    }
    if (w.connection) w.connection->close();
    if (!w.stopped()) result.fault = std::move(what);
    co_return result;
}

asio::awaitable<fault> opener::all_steps(way& w) {
    const wire::url& address = w.where->address;
    if (const auto scheme = wire::check_scheme(address, egress_.allow_http); !scheme) co_return make_fault(error_class::blocked, scheme.error().text);
    if (!address.host_is_address) {
        const auto decision = wire::decide_host(egress_.policy, address.host, address.port, w.where->trusted);
        if (!decision.allowed) co_return blocked(*w.where, decision.reason);
    }
    fault what;
    std::uint16_t port = address.port;
    std::string head;
    if (!w.where->proxy.empty() && !goes_past_proxy(egress_.no_proxy, address)) {
        const auto proxy = parse_proxy(w.where->proxy.reveal());
        if (!proxy) co_return make_fault(error_class::proxy, proxy.error().text);
        what = co_await find_behind_proxy(w);
        if (what || w.stopped()) co_return what;
        w.through_proxy = true;
        w.who.phase = phase::proxy_dial;
        what = co_await find(w, proxy->host, proxy->host_is_address);
        port = proxy->port;
        head = connect_head(address, *proxy);
    } else {
        w.who.phase = phase::lookup;
        what = co_await find(w, address.host, address.host_is_address);
        if (!what && !w.stopped()) what = check_addresses(w);
    }
    if (what || w.stopped()) co_return what;
    what = co_await dial(w, port);
    if (what || w.stopped()) co_return what;
    if (w.through_proxy) {
        what = co_await ask_proxy(w, std::move(head));
        if (what || w.stopped()) co_return what;
    }
    if (address.tls) what = co_await secure(w);
    co_return what;
}

asio::awaitable<fault> opener::find(way& w, std::string host, bool host_is_address) {
    if (host_is_address) {
        if (const auto address = wire::parse_ip(host)) {
            w.addresses = {*address};
            co_return fault{};
        }
        co_return make_fault(error_class::dns, "the host is no address");
    }
    const auto begun = base::boot_clock::now();
    w.who.limit = std::min(w.limit, begun + lookup_timeout_);
    const std::shared_ptr<const lookup> result = co_await resolver_.find(std::move(host), w.who);
    if (w.stopped() || !result) co_return fault{};
    w.who.limit = w.limit;
    if (!w.through_proxy) w.times.dns = milliseconds_since(begun);
    fault what = result->fault;
    if (what && w.through_proxy && !what.own) what = make_fault(error_class::proxy, "the proxy's host name cannot be looked up");
    w.addresses = result->addresses;
    co_return what;
}

// The proxy looks the name up itself and may come to another address. Names and literal addresses are judged as ever; what this host's own name servers know is
// judged too.
asio::awaitable<fault> opener::find_behind_proxy(way& w) {
    const wire::url& address = w.where->address;
    if (address.host_is_address) {
        fault what = co_await find(w, address.host, true);
        co_return what ? what : check_addresses(w);
    }
    w.who.phase = phase::lookup;
    w.who.limit = std::min(w.limit, base::boot_clock::now() + courtesy_lookup);
    const std::shared_ptr<const lookup> result = co_await resolver_.find(address.host, w.who);
    if (w.who.ended == attempt::end::timed_out && base::boot_clock::now() < w.limit) w.who.ended = attempt::end::none;
    w.who.limit = w.limit;
    if (w.stopped() || !result) co_return fault{};
    w.addresses = result->addresses;
    co_return check_addresses(w);
}

fault opener::check_addresses(const way& w) const {
    for (const auto& one : w.addresses) {
        const auto decision = wire::decide_address(egress_.policy, w.where->address.host, one, w.where->address.port, w.where->trusted);
        if (!decision.allowed) return blocked(*w.where, decision.reason);
    }
    return {};
}

asio::awaitable<fault> opener::dial(way& w, std::uint16_t port) {
    if (!w.through_proxy) w.who.phase = phase::connect;
    const auto begun = base::boot_clock::now();
    auto race = std::make_shared<connect_race>(context_, in_order_of_attempts(w.addresses, w.pool->last_winner), port);
    w.who.waits_for = race.get();
    race->begin();
    if (race->busy()) co_await race->finished();
    w.who.waits_for = nullptr;
    if (race->winner()) {
        w.times.connect = milliseconds_since(begun);
        w.pool->last_winner = race->winner_address();
        w.connection = std::make_shared<https::connection>(std::move(*race->winner()));
        co_return fault{};
    }
    if (w.stopped()) co_return fault{};
    if (race->own_fault()) co_return own_fault("connecting failed: " + race->why());
    if (w.through_proxy) co_return make_fault(error_class::proxy, "the connection to the proxy failed: " + race->why());
    co_return make_fault(error_class::connect, "the connection to " + host_and_port(w.where->address) + " failed: " + race->why());
}

asio::awaitable<fault> opener::ask_proxy(way& w, std::string head) {
    w.who.phase = phase::proxy;
    w.who.waits_for = w.connection.get();
    w.connection->begin_request(head, {}, connection::answer_kind::tunnel);
    if (w.connection->busy()) co_await w.connection->finished();
    w.who.waits_for = nullptr;
    answer_reader& answer = w.connection->answer();
    const int status = answer.header_complete() ? answer.content().status : 0;
    if (status / 100 == 2 && !answer.leftovers() && w.connection->open()) co_return fault{};
    if (w.stopped()) co_return fault{};
    const std::string target = host_and_port(w.where->address);
    if (status == 407) co_return make_fault(error_class::proxy, "the proxy refuses the credentials (407)");
    // These three speak of the receiver, not of the proxy (RFC 9110 sections 15.6.3 to 15.6.5).
    if (status >= 502 && status <= 504) co_return make_fault(error_class::connect, "the proxy could not reach " + target + " (" + std::to_string(status) + ")");
    if (status != 0) co_return make_fault(error_class::proxy, "the proxy answered " + std::to_string(status) + " to CONNECT " + target);
    if (w.connection->broken().own) co_return w.connection->broken();
    co_return make_fault(error_class::proxy, "the proxy gave no valid answer to CONNECT " + target + ": " + w.connection->broken().text);
}

asio::awaitable<fault> opener::secure(way& w) {
    w.who.phase = phase::tls;
    const auto begun = base::boot_clock::now();
    const auto context = contexts_.of(w.where->tls, begun);
    if (!context) co_return own_fault(context.error().text);
    auto session = std::make_unique<tls_session>(w.connection->native(), *context, w.where->address.host, w.where->address.host_is_address, w.pool->sessions);
    if (!session->usable()) co_return own_fault("no memory for a TLS connection");
    w.who.waits_for = w.connection.get();
    w.connection->begin_handshake(std::move(session));
    if (w.connection->busy()) co_await w.connection->finished();
    w.who.waits_for = nullptr;
    if (w.stopped()) co_return fault{};
    if (const fault& what = w.connection->broken(); what)
        co_return what.own ? what : make_fault(error_class::tls, "TLS with " + host_and_port(w.where->address) + " failed: " + what.text);
    w.times.tls = milliseconds_since(begun);
    co_return fault{};
}

}  // namespace outboxd::https
