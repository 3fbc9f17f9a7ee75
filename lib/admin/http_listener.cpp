#include "admin/http_listener.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <list>

#include "admin/api.hpp"
#include "admin/dashboard.hpp"
#include "telemetry/log.hpp"

namespace outboxd::admin {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
constexpr auto use = asio::as_tuple(asio::use_awaitable);

// A reader that has said nothing whole for so long gives its place to a newcomer when all places are taken.
constexpr auto patience_when_full = std::chrono::milliseconds{200};
// Metrics are written anew at most so often; scrapers beyond that get the last text, so that a crowd of them costs the loop nothing.
constexpr int fresh_metrics_per_second = 20;

struct place {
    std::string address, port;
    bool loopback{false};
};

base::error cannot_listen(const std::string& listen, const std::string& why) {
    return base::make_error(base::errc::io, "cannot listen on " + listen + " (admin.listen): " + why);
}

place split(const std::string& listen) {
    const auto colon = listen.rfind(':');
    if (colon == std::string::npos) throw base::failure(cannot_listen(listen, "it is written address:port"));
    place p{listen.substr(0, colon), listen.substr(colon + 1), false};
    if (p.address.starts_with('[') && p.address.ends_with(']')) p.address = p.address.substr(1, p.address.size() - 2);
    if (p.address.empty() || p.address == "*") p.address = "0.0.0.0";
    if (p.address == "localhost") p.address = "127.0.0.1";
    return p;
}

tcp::endpoint endpoint_of(const std::string& listen) {
    const auto p = split(listen);
    boost::system::error_code ec;
    const auto address = asio::ip::make_address(p.address, ec);
    if (ec) throw base::failure(cannot_listen(listen, "'" + p.address + "' is no address"));
    std::size_t used = 0;
    unsigned long port = 65536;
    try {
        port = std::stoul(p.port, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != p.port.size() || port > 65535) throw base::failure(cannot_listen(listen, "'" + p.port + "' is no port"));
    return {address, static_cast<std::uint16_t>(port)};
}

struct client {
    explicit client(tcp::socket socket) : stream(std::move(socket)) {}
    beast::tcp_stream stream;
    bool reading{true};
    std::chrono::steady_clock::time_point since{std::chrono::steady_clock::now()};
};

// Shared by the listener and its coroutines: it lives until the last of them has ended.
struct server : std::enable_shared_from_this<server> {
    server(asio::io_context& c, options h, handlers w) : context(c), acceptor(c), room(c), how(std::move(h)), what(std::move(w)) {}

    asio::io_context& context;
    tcp::acceptor acceptor;
    asio::steady_timer room;  // cancelled when a place becomes free
    options how;
    handlers what;
    api_rights rights;
    std::list<std::shared_ptr<client>> clients;
    bool stopped{false};
    std::string metrics_text;
    std::chrono::steady_clock::time_point metrics_second{};
    int metrics_made{0};

    void open();
    void stop() noexcept;
    bool make_room();
    const std::string& metrics();
};

void server::open() {
    const auto where = endpoint_of(how.listen);
    rights.token = how.token;
    rights.loopback = where.address().is_loopback();
    boost::system::error_code ec;
    acceptor.open(where.protocol(), ec);
    if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec && where.address().is_v6()) {
        // `[::]` serves both families where the system can.
        boost::system::error_code ignored;
        acceptor.set_option(asio::ip::v6_only(false), ignored);
    }
    if (!ec) acceptor.bind(where, ec);
    if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
    if (ec == asio::error::address_in_use)
        throw base::failure(cannot_listen(how.listen, "the port is in use by another process; set another one, or null for none"));
    if (ec) throw base::failure(cannot_listen(how.listen, ec.message()));
}

void server::stop() noexcept {
    stopped = true;
    boost::system::error_code ignored;
    acceptor.close(ignored);
    room.cancel();
    for (const auto& c : clients) c->stream.close();
}

// True when another connection may be taken. When all places are taken, those that have kept us waiting lose theirs: behind them may stand a queue of as many more.
bool server::make_room() {
    if (clients.size() < how.max_connections) return true;
    const auto now = std::chrono::steady_clock::now();
    for (const auto& c : clients) {
        if (c->reading && now - c->since > patience_when_full) c->stream.close();  // its coroutine ends and frees the place
    }
    return false;
}

const std::string& server::metrics() {
    const auto now = std::chrono::steady_clock::now();
    if (now - metrics_second >= std::chrono::seconds{1}) {
        metrics_second = now;
        metrics_made = 0;
    }
    if (metrics_made < fresh_metrics_per_second || metrics_text.empty()) {
        ++metrics_made;
        metrics_text = what.metrics ? what.metrics() : std::string{};
    }
    return metrics_text;
}

asio::awaitable<answer> answer_to(std::shared_ptr<server> self, question q) {
    if (q.path == "/healthz") co_return healthz();
    if (q.path == "/readyz") co_return readyz(self->what.state ? self->what.state() : relay_state{});
    if (q.path == "/metrics") co_return answer{200, "text/plain; version=0.0.4; charset=utf-8", self->metrics(), {}};
    if (q.path == "/") co_return dashboard();
    if (q.path.starts_with("/api/")) {
        if (auto no = refuse(self->rights, q)) co_return *no;
        if (self->what.store == nullptr) co_return error_answer(503, "no database to ask");
        auto rate = self->what.default_rate_limit ? self->what.default_rate_limit() : std::string{};
        co_return co_await answer_api(*self->what.store, std::move(q), std::move(rate));
    }
    co_return error_answer(404, "no such path; there are /, /healthz, /readyz, /metrics and /api/v1/");
}

using reply = http::response<http::string_body>;

reply reply_from(answer a, bool head, unsigned version, bool keep_alive) {
    reply r{static_cast<http::status>(a.status), version};
    r.set(http::field::server, "outboxd");
    r.set(http::field::content_type, a.content_type);
    r.set(http::field::cache_control, "no-store");
    r.set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : a.headers) r.set(name, value);
    const auto size = a.body.size();
    if (!head) r.body() = std::move(a.body);
    r.content_length(size);
    r.keep_alive(keep_alive);
    return r;
}

// What to answer to bytes that are no acceptable request; nothing when the peer has simply gone.
std::optional<answer> answer_to_fault(const boost::system::error_code& ec) {
    if (ec == http::error::end_of_stream || ec == beast::error::timeout) return std::nullopt;
    if (ec == http::error::header_limit || ec == http::error::buffer_overflow) return error_answer(431, "the request's header is too large");
    if (ec == http::error::body_limit) return error_answer(413, "requests have no body here");
    if (ec.category() == make_error_code(http::error::bad_version).category()) return error_answer(400, "this is no HTTP request");
    return std::nullopt;
}

// One request and its answer. False: the connection ends.
asio::awaitable<bool> serve_one(std::shared_ptr<server> self, std::shared_ptr<client> c, beast::flat_buffer& buffer) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(self->how.header_limit));
    parser.body_limit(4096);
    c->reading = true;
    c->since = std::chrono::steady_clock::now();
    c->stream.expires_after(self->how.deadline);
    const auto [fault, read] = co_await http::async_read(c->stream, buffer, parser, use);
    (void)read;
    c->reading = false;
    std::optional<answer> a;
    bool head = false;
    bool keep_alive = false;
    unsigned version = 11;
    if (fault) {
        a = answer_to_fault(fault);
        if (!a) co_return false;
    } else {
        const auto& request = parser.get();
        version = request.version();
        keep_alive = request.keep_alive() && !self->stopped;
        head = request.method() == http::verb::head;
        auto q = parse_target({request.target().data(), request.target().size()});
        if (request.method() != http::verb::get && !head) {
            a = error_answer(405, "only GET and HEAD");
            a->headers.emplace_back("Allow", "GET, HEAD");
        } else if (!q) {
            a = error_answer(q.error());
        } else {
            q->authorization = std::string(request[http::field::authorization]);
            q->host = std::string(request[http::field::host]);
            c->stream.expires_never();  // the store has its own deadline
            a = co_await answer_to(self, std::move(*q));
        }
    }
    auto out = reply_from(std::move(*a), head, version, keep_alive);
    c->stream.expires_after(self->how.deadline);
    http::serializer<false, http::string_body> serializer{out};
    if (head) {
        const auto [broken, n] = co_await http::async_write_header(c->stream, serializer, use);
        (void)n;
        co_return !broken && keep_alive;
    }
    const auto [broken, n] = co_await http::async_write(c->stream, serializer, use);
    (void)n;
    co_return !broken && keep_alive;
}

asio::awaitable<void> serve(std::shared_ptr<server> self, std::shared_ptr<client> c) {
    beast::flat_buffer buffer{self->how.header_limit + 8192};
    while (!self->stopped) {
        const bool go_on = co_await serve_one(self, c, buffer);
        if (!go_on) break;
    }
    boost::system::error_code ignored;
    c->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    c->stream.close();
}

asio::awaitable<void> accept_all(std::shared_ptr<server> self) {
    while (!self->stopped) {
        if (!self->make_room()) {
            self->room.expires_after(std::chrono::milliseconds{100});
            co_await self->room.async_wait(use);
            continue;
        }
        auto [ec, socket] = co_await self->acceptor.async_accept(use);
        if (self->stopped) break;
        if (ec) {
            // No descriptors left, or the peer went away before we looked: neither ends the listener.
            telemetry::log_limited(telemetry::level::warn, "admin_accept", "", ec.message());
            self->room.expires_after(std::chrono::milliseconds{100});
            co_await self->room.async_wait(use);
            continue;
        }
        auto c = std::make_shared<client>(std::move(socket));
        const auto at = self->clients.insert(self->clients.end(), c);
        asio::co_spawn(self->context, serve(self, c), [self, at](std::exception_ptr thrown) {
            self->clients.erase(at);
            self->room.cancel();
            if (thrown) telemetry::log_limited(telemetry::level::error, "admin_fault", "", "a request ended with an exception");
        });
    }
}

class http_listener final : public listener {
public:
    http_listener(asio::io_context& context, options how, handlers what) : server_(std::make_shared<server>(context, std::move(how), std::move(what))) {
        server_->open();
        asio::co_spawn(context, accept_all(server_), [kept = server_](std::exception_ptr thrown) {
            if (thrown) telemetry::log(telemetry::level::error, "admin_fault", "the listener ended with an exception");
        });
    }
    ~http_listener() override { server_->stop(); }
    http_listener(const http_listener&) = delete;
    http_listener& operator=(const http_listener&) = delete;

    std::uint16_t port() const noexcept override {
        boost::system::error_code ec;
        const auto where = server_->acceptor.local_endpoint(ec);
        return ec ? std::uint16_t{0} : where.port();
    }
    void stop() noexcept override { server_->stop(); }
    std::size_t connections() const noexcept override { return server_->clients.size(); }

private:
    std::shared_ptr<server> server_;
};

}  // namespace

std::unique_ptr<listener> make_listener(asio::io_context& context, options how, handlers what) {
    return std::make_unique<http_listener>(context, std::move(how), std::move(what));
}

}  // namespace outboxd::admin
