#include "https/beast_sender.hpp"

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <exception>
#include <string>
#include <utility>

#include "https/attempt.hpp"
#include "https/connection.hpp"
#include "https/connection_pool.hpp"
#include "https/opener.hpp"
#include "https/proxy.hpp"

namespace outboxd::https {

namespace asio = boost::asio;
using boost::system::error_code;
using lifecycle::error_class;

namespace {

// Deadlines are looked at this often while anything is on the wire: one timer for all instead of one for each.
constexpr auto tick = std::chrono::milliseconds{50};
constexpr auto shortest_sweep = std::chrono::seconds{1};

std::string how_long(base::boot_time from, base::boot_time to) {
    const auto exact = std::chrono::duration_cast<base::milliseconds>(to - from).count();
    return base::format_duration(base::milliseconds{exact < 0 ? 0 : (exact + 5) / 10 * 10});
}

resolver_options names_of(sender_options& options) {
    resolver_options names;
    names.threads = options.resolver_threads;
    names.queue = options.resolver_queue;
    names.positive = options.dns_positive;
    names.negative = options.dns_negative;
    if (options.look_up)
        names.ask = [ask = std::move(options.look_up)](const std::string& host) {
            host_addresses found = ask(host);
            lookup result;
            result.addresses = std::move(found.addresses);
            if (result.addresses.empty())
                result.fault = make_fault(error_class::dns, "looking up " + host + " failed: " + (found.error.empty() ? "no such host" : found.error));
            return result;
        };
    return names;
}

}  // namespace

class beast_sender final : public network_sender {
public:
    beast_sender(asio::io_context& context, sender_options options)
        : egress_{std::move(options.policy), options.allow_http, std::move(options.no_proxy)},
          pool_(pool_limits{options.idle_per_route, options.idle_in_all, options.idle_timeout}),
          opener_(context, names_of(options), options.lookup_timeout, egress_),
          ticker_(context.get_executor()),
          sweeper_(context.get_executor()) {}
    ~beast_sender() override;

    asio::awaitable<ports::send_reply> send(std::shared_ptr<const ports::route> where, std::string_view head, std::string_view body,
                                            base::boot_time deadline) override;
    void abort() override;
    void close() override;
    void reload() override;
    void replace_policy(wire::egress_policy policy, bool allow_http, std::vector<std::string> no_proxy) override;
    [[nodiscard]] totals connection_totals() const noexcept override { return totals_; }
    [[nodiscard]] std::size_t idle_connections() const noexcept override { return pool_.idle_count(); }

private:
    using timer = asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, executor>;
    using reply = ports::send_reply;

    static void report(const fault& what, reply& out);
    static void report_end(const attempt& self, const ports::route& where, connection* c, reply& out);
    void report_answer(const attempt& self, connection& c, base::boot_time sent, reply& out);
    void keep(route_pool& route, std::shared_ptr<connection> c);
    void ended(attempt& self);
    void start_tick();
    void on_tick();
    void start_sweep(base::boot_time at, base::boot_time now);
    void on_sweep();

    egress egress_;
    connection_pool pool_;
    opener opener_;
    timer ticker_;
    timer sweeper_;
    boost::intrusive::list<attempt, boost::intrusive::constant_time_size<false>> attempts_;
    std::shared_ptr<int> alive_{std::make_shared<int>()};  // timers' handlers may outlive the sender
    totals totals_;
    bool ticking_{false};
    bool sweeping_{false};
    bool closing_{false};
};

// The story of one attempt: a kept connection, else a new one; the request; the answer. A kept connection that turns out closed before any byte of an answer
// costs one repetition on a new one.
asio::awaitable<ports::send_reply> beast_sender::send(std::shared_ptr<const ports::route> where, std::string_view head, std::string_view body,
                                                      base::boot_time deadline) {
    reply out;
    attempt self;
    const auto now = base::boot_clock::now();
    self.started = now;
    self.deadline = self.limit = deadline;
    if (closing_) {
        report(own_fault("the sender is closed"), out);
        co_return out;
    }
    if (deadline <= now) {
        out.error_class = error_class::timeout;
        out.error = "timed out before the attempt began";
        co_return out;
    }
    attempts_.push_back(self);
    start_tick();
    try {
        const auto kind = head.starts_with("HEAD ") ? connection::answer_kind::header_only : connection::answer_kind::whole;
        const std::shared_ptr<route_pool> route = pool_.of(where, now);
        std::shared_ptr<connection> c = pool_.take(*route, now);
        base::boot_time sent = now;
        out.reused = c != nullptr;
        for (;;) {
            if (!c) {
                opened fresh = co_await opener_.open(where, route, self, out.phases);
                if (!fresh.connection) {
                    if (fresh.fault)
                        report(fresh.fault, out);
                    else
                        report_end(self, *where, nullptr, out);
                    break;
                }
                c = std::move(fresh.connection);
                ++totals_.opened;
                sent = base::boot_clock::now();
            }
            self.phase = phase::request;
            self.waits_for = c.get();
            c->begin_request(head, body, kind);
            if (c->busy()) co_await c->finished();
            self.waits_for = nullptr;
            const bool stale = out.reused && self.ended == attempt::end::none && c->broken().error_class == error_class::connect && !c->answer().any_byte();
            if (!stale) {
                if (out.reused) ++totals_.reused;
                if (c->answer().header_complete())
                    report_answer(self, *c, sent, out);
                else if (self.ended != attempt::end::none)
                    report_end(self, *where, c.get(), out);
                else
                    report(c->broken(), out);
                keep(*route, std::move(c));
                break;
            }
            out.reused = false;
            c.reset();
        }
    } catch (const std::exception&) {
        out = {};
        report(own_fault("out of memory or descriptors"), out);
    }
    ended(self);
    co_return out;
}

void beast_sender::report(const fault& what, reply& out) {
    out.error_class = what.error_class;
    out.error = what.text;
    out.own_fault = what.own;
}

void beast_sender::report_end(const attempt& self, const ports::route& where, connection* c, reply& out) {
    if (self.ended == attempt::end::aborted) return report(own_fault("ended by this relay before an answer"), out);
    std::string doing;
    out.error_class = error_class::timeout;
    switch (self.phase) {
        case phase::start: doing = "beginning"; break;
        case phase::lookup: doing = "looking up " + where.address.host; break;
        case phase::connect: doing = "connecting to " + host_and_port(where.address); break;
        case phase::proxy_dial:
            doing = "connecting to the proxy";
            out.error_class = error_class::proxy;
            break;
        case phase::proxy: doing = "waiting for the proxy's answer"; break;
        case phase::tls: doing = "waiting for the TLS handshake"; break;
        case phase::request: doing = c != nullptr && !c->request_written() ? "sending the request" : "waiting for the answer header"; break;
    }
    out.error = "timed out after " + how_long(self.started, self.limit) + " while " + doing;
}

void beast_sender::report_answer(const attempt& self, connection& c, base::boot_time sent, reply& out) {
    answer& got = c.answer().content();
    out.complete = true;
    out.status = got.status;
    out.retry_after = std::move(got.retry_after);
    out.webhook_delivery = std::move(got.webhook_delivery);
    out.location = std::move(got.location);
    out.excerpt = std::move(got.excerpt);
    out.phases.first_byte = static_cast<int>(std::chrono::duration_cast<base::milliseconds>(c.last_activity() - sent).count());
    out.error = c.answer().text();
    if (self.ended == attempt::end::timed_out) out.error = "timed out after " + how_long(self.started, self.limit) + " while reading the answer body";
    if (self.ended == attempt::end::aborted) out.error = "ended by this relay while reading the answer body";
}

void beast_sender::keep(route_pool& route, std::shared_ptr<connection> c) {
    if (!c->open()) return;
    if (closing_) return c->close();
    const auto since = c->last_activity();
    const int hint = c->answer().keep_alive_hint();
    pool_.give(route, std::move(c), since, hint);
    if (!sweeping_ && pool_.any_idle()) start_sweep(pool_.first_end(), since);
}

void beast_sender::ended(attempt& self) {
    self.unlink();
    if (!closing_ || !attempts_.empty()) return;
    ticker_.cancel();
    opener_.resolver().close();
}

void beast_sender::start_tick() {
    if (ticking_) return;
    ticking_ = true;
    ticker_.expires_after(tick);
    ticker_.async_wait([this, alive = std::weak_ptr<int>(alive_)](const error_code&) {
        if (!alive.expired()) on_tick();
    });
}

void beast_sender::on_tick() {
    ticking_ = false;
    if (attempts_.empty()) return;
    const auto now = base::boot_clock::now();
    for (attempt& one : attempts_)
        if (one.limit <= now) one.stop(attempt::end::timed_out);
    start_tick();
}

void beast_sender::start_sweep(base::boot_time at, base::boot_time now) {
    sweeping_ = true;
    sweeper_.expires_after(std::max<base::boot_clock::duration>(at - now, shortest_sweep));
    sweeper_.async_wait([this, alive = std::weak_ptr<int>(alive_)](const error_code&) {
        if (!alive.expired()) on_sweep();
    });
}

void beast_sender::on_sweep() {
    sweeping_ = false;
    const auto now = base::boot_clock::now();
    if (const auto next = pool_.sweep(now); next && !closing_) start_sweep(*next, now);
}

void beast_sender::abort() {
    for (attempt& one : attempts_) one.stop(attempt::end::aborted);
}

void beast_sender::close() {
    closing_ = true;
    pool_.close_idle();
    sweeper_.cancel();
    if (!attempts_.empty()) return;
    ticker_.cancel();
    opener_.resolver().close();
}

void beast_sender::reload() {
    opener_.reload();
    pool_.forget_all();
}

void beast_sender::replace_policy(wire::egress_policy policy, bool allow_http, std::vector<std::string> no_proxy) {
    egress_ = {std::move(policy), allow_http, std::move(no_proxy)};
    pool_.forget_all();
}

beast_sender::~beast_sender() {
    close();
    // Sends that nobody waited for: their coroutines go, as they would with the io_context.
    while (!attempts_.empty()) {
        attempt& one = attempts_.front();
        one.unlink();
        if (one.waits_for == nullptr) continue;
        one.waits_for->drop_waiter();  // unwound later, from the event loop
        one.waits_for->interrupt();    // wakes nobody any more, but closes the sockets
    }
}

std::unique_ptr<network_sender> make_sender(asio::io_context& context, sender_options options) {
    return std::make_unique<beast_sender>(context, std::move(options));
}

}  // namespace outboxd::https
