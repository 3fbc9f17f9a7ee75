// The small HTTP server on admin.listen: health, metrics, /api/v1, the dashboard. Floor 4 (admin); Beast stays in http_listener.cpp.
// It shares the engine's loop, so everything is bounded: connections, header, time, work per request. Reads only; nothing it answers changes anything.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "admin/health.hpp"
#include "base/secret.hpp"
#include "base/time.hpp"
#include "ports/operator_store.hpp"

namespace outboxd::admin {

namespace asio = boost::asio;

struct options {
    std::string listen{"127.0.0.1:9464"};  // address:port, [v6]:port, localhost:port; port 0: a free one
    base::secret token;                    // for /api/v1; empty: none needed on a loopback address, and no /api/v1 elsewhere
    std::size_t max_connections{64};
    std::size_t header_limit{8192};
    base::milliseconds deadline{5000};  // of reading a request, and again of writing its answer
};

// Called on the loop's thread; small work only.
struct handlers {
    std::function<relay_state()> state;
    std::function<std::string()> metrics;
    ports::operator_store* store{nullptr};            // null: /api/v1 answers 503. Outlives the listener's last connection.
    std::function<std::string()> default_rate_limit;  // for explanations: `100/s`, or empty
};

class listener {
public:
    virtual ~listener() = default;
    [[nodiscard]] virtual std::uint16_t port() const noexcept = 0;
    // Accepts no more and closes every connection; its coroutines end within the next turns of the loop, which then runs dry.
    virtual void stop() noexcept = 0;
    [[nodiscard]] virtual std::size_t connections() const noexcept = 0;
};

// Listens at once and serves while `context` runs. Throws base::failure(io) naming address, reason and the way out when it cannot listen.
[[nodiscard]] std::unique_ptr<listener> make_listener(asio::io_context& context, options how, handlers what);

}  // namespace outboxd::admin
