// The network as the relay needs it. Floor 3, abstract.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.hpp"
#include "base/time.hpp"
#include "lifecycle/outcome.hpp"
#include "lifecycle/settlement.hpp"
#include "wire/url.hpp"

namespace outboxd::ports {

namespace asio = boost::asio;

// TLS material by content: equal values share one context and one connection pool.
struct tls_profile {
    std::string ca_file;  // PEM file or directory; empty: the system's store
    std::string client_cert;
    std::string client_key;
    std::string min_version{"1.2"};
    std::string pinned_spki;
    bool verify{true};
    friend bool operator==(const tls_profile&, const tls_profile&) = default;
};

// Where and how to connect. Made once per endpoint and shared by its sends: the pool's key.
struct route {
    wire::url address;
    bool trusted{false};          // address policy: endpoint of the configuration file
    base::secret proxy;           // http://user:pass@host:port of a CONNECT proxy; empty: direct
    tls_profile tls;
    base::milliseconds connect_timeout{5000};
};

struct send_reply {
    bool complete{false};         // status line and header arrived whole
    int status{0};
    lifecycle::error_class error_class{lifecycle::error_class::none};  // none when an answer was received; otherwise what broke
    std::string error;            // printable sentence without secrets or internal addresses; empty when complete (a broken-off body is noted here)
    bool own_fault{false};        // EMFILE, no memory, local address exhaustion: uses up no attempt (proxy faults come as class proxy)
    std::string retry_after;
    std::string webhook_delivery;
    std::string location;
    std::string excerpt;          // raw bytes, at most 1 KiB
    lifecycle::phase_times phases;
    bool reused{false};           // sent on a kept-alive connection
};

class https_sender {
public:
    virtual ~https_sender() = default;
    // One attempt: at most one request is answered. `deadline` is the end of the whole attempt. head and body must stay valid until the reply. Never throws; every fault is a reply.
    virtual asio::awaitable<send_reply> send(std::shared_ptr<const route> where, std::string_view head, std::string_view body, base::boot_time deadline) = 0;
    // Ends requests on the wire at once; their sends reply class `local`, own_fault.
    virtual void abort() = 0;
    // Closes idle connections, lets the rest of its coroutines end. After it and the last reply nothing of the sender is pending on the io_context.
    virtual void close() = 0;
    // Certificate files may have changed: contexts are built anew for connections made from now on.
    virtual void reload() = 0;
    struct totals {
        std::uint64_t opened{0};
        std::uint64_t reused{0};
    };
    [[nodiscard]] virtual totals connection_totals() const noexcept = 0;
};

}  // namespace outboxd::ports
