// HTTPS to receivers: the sender behind ports/https_sender.hpp. Floor 4; single-threaded, lives on one io_context.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "ports/https_sender.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::https {

// What a lookup brings; `error` is a phrase for people, empty when there are addresses.
struct host_addresses {
    std::vector<wire::ip_address> addresses;
    std::string error;
};

struct sender_options {
    wire::egress_policy policy;
    bool allow_http{false};             // contract: egress.allow_http
    std::vector<std::string> no_proxy;  // egress.no_proxy
    int resolver_threads{8};
    std::size_t resolver_queue{1024};  // names being looked up at once
    base::milliseconds lookup_timeout{5'000};
    base::milliseconds dns_positive{15'000};
    base::milliseconds dns_negative{1'000};
    std::size_t idle_per_route{256};
    std::size_t idle_in_all{2048};
    base::milliseconds idle_timeout{30'000};
    std::function<host_addresses(const std::string& host)> look_up;  // runs on a resolver thread; empty: getaddrinfo(3)
};

// The port, and what a reload of the configuration changes.
class network_sender : public ports::https_sender {
public:
    // Holds for every connection made from now on; idle ones are closed, and those in use are not kept.
    virtual void replace_policy(wire::egress_policy policy, bool allow_http, std::vector<std::string> no_proxy) = 0;
    [[nodiscard]] virtual std::size_t idle_connections() const noexcept = 0;
};

// All sends, abort(), close(), reload() and the destructor belong to the thread that runs `context`. Destroy it when its last send has replied and before
// `context`.
[[nodiscard]] std::unique_ptr<network_sender> make_sender(boost::asio::io_context& context, sender_options options);

}  // namespace outboxd::https
