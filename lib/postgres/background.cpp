#include "postgres/background.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace outboxd::postgres {

namespace asio = boost::asio;

namespace {

constexpr int limit = 8;
constexpr std::size_t address_limit = 8;
std::atomic<int> busy{0};

struct slot_guard {
    ~slot_guard() { --busy; }
};

// What the thread and the waiting coroutine share. `timer` belongs to the waiting side: it is reached only by post, and only while the coroutine has not given up.
struct shared_lookup {
    asio::any_io_executor executor;
    asio::steady_timer* timer{nullptr};
    std::mutex lock;
    bool abandoned{false};
    bool done{false};
    int error{0};
    std::vector<std::string> addresses;
};

struct abandon_guard {
    std::shared_ptr<shared_lookup> shared;
    ~abandon_guard() {
        const std::lock_guard hold{shared->lock};
        shared->abandoned = true;
    }
};

int resolve(const std::string& host, std::vector<std::string>& addresses) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* list = nullptr;
    int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    if (error != 0) {  // a machine with nothing but loopback has no address that AI_ADDRCONFIG would count
        hints.ai_flags = 0;
        error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    }
    if (error != 0) return error;
    for (const auto* a = list; a != nullptr && addresses.size() < address_limit; a = a->ai_next) {
        char text[NI_MAXHOST];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
        if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) addresses.emplace_back(text);
    }
    freeaddrinfo(list);
    return 0;
}

void resolve_for(const std::shared_ptr<shared_lookup>& shared, const std::string& host) {
    std::vector<std::string> addresses;
    const int error = resolve(host, addresses);
    const std::lock_guard hold{shared->lock};
    if (shared->abandoned) return;
    shared->error = error;
    shared->addresses = std::move(addresses);
    // Under the lock: as long as the coroutine has not given up, its loop is there.
    asio::post(shared->executor, [shared] {
        if (shared->abandoned) return;
        shared->done = true;
        shared->timer->cancel();
    });
}

}  // namespace

bool run_in_background(std::function<void()> call) {
    if (++busy > limit) {
        --busy;
        return false;
    }
    try {
        std::thread([call = std::move(call)] {
            const slot_guard guard;
            call();
        }).detach();
    } catch (const std::system_error&) {
        --busy;
        return false;
    }
    return true;
}

asio::awaitable<base::result<std::vector<std::string>>> look_up(std::string host, base::milliseconds deadline, asio::steady_timer& timer) {
    timer.expires_after(deadline);
    const auto shared = std::make_shared<shared_lookup>();
    shared->executor = timer.get_executor();
    shared->timer = &timer;
    const abandon_guard guard{shared};
    if (!run_in_background([shared, host] { resolve_for(shared, host); })) {
        co_return base::make_error(base::errc::database_busy, "earlier name look-ups have not ended yet");
    }
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (!shared->done && ec) co_return base::make_error(base::errc::cancelled, "the look-up of the host name was ended");
    if (!shared->done) co_return base::make_error(base::errc::timeout, "the look-up of the host name took too long");
    if (shared->error != 0 || shared->addresses.empty()) co_return base::make_error(base::errc::database_unreachable, "the host name cannot be resolved");
    co_return std::move(shared->addresses);
}

}  // namespace outboxd::postgres
