#include "https/resolver.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace outboxd::https {

namespace {

constexpr auto slow = std::chrono::seconds{1};  // a lookup that takes longer marks its domain
constexpr auto slow_memory = std::chrono::minutes{5};

// `a.b.example.com` -> `example.com`: who invents names below one hanging domain gets no more threads by it.
std::string domain_of(const std::string& host) {
    std::size_t dot = host.rfind('.');
    if (dot == std::string::npos || dot == 0) return host;
    dot = host.rfind('.', dot - 1);
    return dot == std::string::npos ? host : host.substr(dot + 1);
}

fault lookup_fault(int code, int system_error, const std::string& host) {
    if (code == EAI_MEMORY || system_error == EMFILE || system_error == ENFILE || system_error == ENOMEM)
        return own_fault("looking up " + host + " failed: " + std::strerror(code == EAI_MEMORY ? ENOMEM : system_error));
    std::string why;
    switch (code) {
        case EAI_NONAME: why = "no such host"; break;
#ifdef EAI_NODATA
        case EAI_NODATA: why = "the name has no address"; break;
#endif
        case EAI_AGAIN: why = "the name servers gave no answer (temporary failure)"; break;
        case EAI_FAIL: why = "the name servers refused to answer"; break;
        case EAI_SYSTEM: why = std::strerror(system_error); break;
        default: why = ::gai_strerror(code);
    }
    return make_fault(lifecycle::error_class::dns, "looking up " + host + " failed: " + why);
}

}  // namespace

lookup ask_system(const std::string& host) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    errno = 0;
    const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
    lookup result;
    if (code != 0) {
        result.fault = lookup_fault(code, errno, host);
        return result;
    }
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
        wire::ip_address address;
        if (one->ai_family == AF_INET) {
            sockaddr_in in{};
            std::memcpy(&in, one->ai_addr, sizeof in);
            std::memcpy(address.bytes.data(), &in.sin_addr, 4);
        } else if (one->ai_family == AF_INET6) {
            sockaddr_in6 in{};
            std::memcpy(&in, one->ai_addr, sizeof in);
            std::memcpy(address.bytes.data(), &in.sin6_addr, 16);
            address.v6 = true;
        } else {
            continue;
        }
        if (std::find(result.addresses.begin(), result.addresses.end(), address) == result.addresses.end()) result.addresses.push_back(address);
    }
    ::freeaddrinfo(list);
    if (result.addresses.empty()) result.fault = make_fault(lifecycle::error_class::dns, "looking up " + host + " failed: the name has no address");
    return result;
}

// What the threads share with the resolver; outlives it while one of them hangs.
struct resolver::workshop : std::enable_shared_from_this<resolver::workshop> {
    struct order {
        std::string host;
        std::string domain;
        bool slow;
    };

    workshop(boost::asio::io_context& c, resolver& r, const resolver_options& o)
        : context(&c), owner(&r), limit(std::max(1, o.threads)), ask(o.ask ? o.ask : ask_system) {}

    bool submit(const std::string& host) {
        const std::lock_guard lock(mutex);
        const std::string domain = domain_of(host);
        const auto marked = slow_until.find(domain);
        orders.push_back({host, domain, marked != slow_until.end() && marked->second > base::boot_clock::now()});
        if (idle > 0 || threads >= limit) {
            wake.notify_one();
            return true;
        }
        try {
            std::thread([self = shared_from_this()] { self->work(); }).detach();
            ++threads;
        } catch (const std::system_error&) {
            if (threads > 0) return true;
            orders.pop_back();
            return false;
        }
        return true;
    }

    bool take(order& next) {
        const auto found = std::find_if(orders.begin(), orders.end(), [&](const order& o) { return !o.slow || slow_running < std::max(1, limit / 2); });
        if (found == orders.end()) return false;
        next = std::move(*found);
        orders.erase(found);
        return true;
    }

    void work() {
        std::unique_lock lock(mutex);
        while (!closed) {
            order next;
            if (!take(next)) {
                ++idle;
                wake.wait(lock);
                --idle;
                continue;
            }
            if (next.slow) ++slow_running;
            lock.unlock();
            const auto begun = base::boot_clock::now();
            lookup result;
            try {
                result = ask(next.host);
            } catch (const std::exception&) {
                result.fault = own_fault("looking up " + next.host + " failed: no memory");
            }
            const auto ended = base::boot_clock::now();
            lock.lock();
            if (next.slow) --slow_running;
            if (ended - begun > slow) {
                if (slow_until.size() > 4096) slow_until.clear();
                slow_until[next.domain] = ended + slow_memory;
            } else {
                slow_until.erase(next.domain);
            }
            // Posted under the lock: close() takes it, so that nothing is posted to a context that may be gone.
            if (!closed)
                boost::asio::post(*context, [self = shared_from_this(), host = std::move(next.host), result = std::move(result)]() mutable {
                    if (self->owner != nullptr) self->owner->done(host, std::move(result));
                });
        }
        --threads;
        left.notify_all();
    }

    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable left;
    boost::asio::io_context* context;
    resolver* owner;  // only touched on the context's thread
    std::deque<order> orders;
    std::unordered_map<std::string, base::boot_time> slow_until;
    const int limit;
    const std::function<lookup(const std::string&)> ask;
    int threads{0};
    int idle{0};
    int slow_running{0};
    bool closed{false};
};

struct resolver::waiter final : interruptible {
    explicit waiter(resolver& r) : owner(r) {}
    void interrupt() override { done.wake_later(owner.context_.get_executor()); }
    void drop_waiter() noexcept override { done.drop(); }
    resolver& owner;
    parked done;
    std::shared_ptr<const lookup> result;
};

resolver::resolver(boost::asio::io_context& context, resolver_options options)
    : context_(context), options_(std::move(options)), workshop_(std::make_shared<workshop>(context, *this, options_)) {}

resolver::~resolver() {
    close();
}

void resolver::close() {
    workshop_->owner = nullptr;
    std::unique_lock lock(workshop_->mutex);
    workshop_->closed = true;
    workshop_->orders.clear();
    workshop_->wake.notify_all();
    // Threads without work leave at once; those inside getaddrinfo are left behind and touch nothing but the workshop.
    workshop_->left.wait_for(lock, std::chrono::milliseconds{200}, [&] { return workshop_->idle == 0; });
}

boost::asio::awaitable<std::shared_ptr<const lookup>> resolver::find(std::string host, attempt& who) {
    const auto now = base::boot_clock::now();
    if (const auto found = known_.find(host); found != known_.end()) {
        if (found->second.until > now) co_return found->second.result;
        known_.erase(found);
    }
    if (who.ended != attempt::end::none) co_return nullptr;
    const bool first = !pending_.contains(host);
    if (first && (pending_.size() >= options_.queue || !workshop_->submit(host))) {
        auto full = std::make_shared<lookup>();
        full->fault = own_fault("too many host names are being looked up at once");
        co_return full;
    }
    waiter self(*this);
    pending_[host].waiters.push_back(&self);
    who.waits_for = &self;
    co_await self.done.wait();
    who.waits_for = nullptr;
    if (!self.result) {
        // Given up; the lookup goes on, and the next one who asks joins it.
        if (const auto found = pending_.find(host); found != pending_.end()) std::erase(found->second.waiters, &self);
    }
    co_return self.result;
}

void resolver::done(const std::string& host, lookup result) {
    const auto shared = std::make_shared<const lookup>(std::move(result));
    remember(host, shared);
    const auto found = pending_.find(host);
    if (found == pending_.end()) return;
    const std::vector<waiter*> waiters = std::move(found->second.waiters);
    pending_.erase(found);
    for (waiter* w : waiters) {
        w->result = shared;
        w->done.wake_later(context_.get_executor());
    }
}

void resolver::remember(const std::string& host, const std::shared_ptr<const lookup>& result) {
    if (result->fault.own) return;
    const auto now = base::boot_clock::now();
    if (known_.size() >= memory_limit) std::erase_if(known_, [&](const auto& entry) { return entry.second.until <= now; });
    if (known_.size() >= memory_limit) known_.clear();
    known_[host] = {result, now + (result->fault ? options_.negative : options_.positive)};
}

}  // namespace outboxd::https
