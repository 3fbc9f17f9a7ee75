// Host names to addresses: getaddrinfo(3) on a few threads, with a short memory. Floor 4, used inside the room only.
//
// One lookup per name at a time, however many wait for it. A lookup that hangs keeps its thread and nothing else: who waits gives up at his own limit, names
// whose lookups were slow (and their neighbours in the same domain) may use half of the threads at most, and the end of the resolver waits for none of them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.hpp"
#include "https/attempt.hpp"
#include "https/fault.hpp"
#include "https/parked.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::https {

struct lookup {
    std::vector<wire::ip_address> addresses;  // in the system's order of preference (RFC 6724), without repetitions
    https::fault fault;
};

struct resolver_options {
    int threads{8};
    std::size_t queue{1024};  // names waited for at once
    base::milliseconds positive{15'000};
    base::milliseconds negative{1'000};
    std::function<lookup(const std::string& host)> ask;  // empty: getaddrinfo
};

class resolver {
public:
    resolver(boost::asio::io_context& context, resolver_options options);
    ~resolver();  // no one waits any more
    resolver(const resolver&) = delete;
    resolver& operator=(const resolver&) = delete;

    // Null when the attempt was stopped (its limit, abort) meanwhile.
    [[nodiscard]] boost::asio::awaitable<std::shared_ptr<const lookup>> find(std::string host, attempt& who);
    void forget() { known_.clear(); }
    void close();

private:
    struct waiter;
    struct pending {
        std::vector<waiter*> waiters;
    };
    struct known {
        std::shared_ptr<const lookup> result;
        base::boot_time until;
    };
    struct workshop;
    void done(const std::string& host, lookup result);
    void remember(const std::string& host, const std::shared_ptr<const lookup>& result);

    static constexpr std::size_t memory_limit = 8192;
    boost::asio::io_context& context_;
    resolver_options options_;
    std::unordered_map<std::string, known> known_;
    std::unordered_map<std::string, pending> pending_;
    std::shared_ptr<workshop> workshop_;
};

// The default `ask`.
[[nodiscard]] lookup ask_system(const std::string& host);

}  // namespace outboxd::https
