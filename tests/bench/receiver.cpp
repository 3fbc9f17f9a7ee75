// Role: the other end of every benchmark: answers each POST with 200 at once or after a delay, and remembers when which event came. One thread, one epoll, no
// logging; it costs a few microseconds per request, most of them the kernel's, so that what is measured is the relay.
//   bench_receiver [CERTIFICATE KEY]
// First line on stdout: {"http": PORT, "https": PORT}. Then one command per line on stdin, one line of answer each; the end of stdin ends the program.
//   reset EVENTS DELAY_US   forget everything; event numbers from 0 to EVENTS - 1 are expected
//   stats                   what came so far
//   wait UNIQUE MS          the same, as soon as so many different events came, or after so long
//   arrivals FILE           writes `NUMBER NANOSECONDS` (CLOCK_MONOTONIC, first arrival) per event
// The number of an event stands in its body as "bench_number": N.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using nanoseconds = long long;

constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view number_name = "\"bench_number\":";
constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

nanoseconds now() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

struct connection {
    SSL* tls{nullptr};
    std::string rest;             // the beginning of a request that is not complete
    std::uint32_t generation{0};  // tells a delayed answer that its descriptor belongs to somebody else by now
    bool open{false};
    bool shaking_hands{false};
};

struct delayed_answer {
    nanoseconds due;
    int descriptor;
    std::uint32_t generation;
};

struct figures {
    unsigned long long requests{0}, unique{0}, duplicates{0}, without_number{0}, bad{0}, connections{0};
    std::size_t most_in_flight{0};
    nanoseconds first{0}, last{0};
};

class receiver {
public:
    receiver(const char* certificate, const char* key);
    void run();

private:
    int listen_on(std::uint16_t& port) const;
    void watch(int descriptor) const;
    void accept_all(int listener, bool tls);
    void close(int descriptor);
    void read_plain(int descriptor);
    void read_tls(int descriptor);
    /// What came, without the rest of an earlier read; false when the connection is not worth keeping.
    bool take(int descriptor, std::string_view came);
    void note(std::string_view body, nanoseconds at);
    void send(int descriptor, std::string_view bytes);
    void answer_due();
    void commands();
    void command(const std::string& line);
    void print_stats() const;
    connection& at(int descriptor) { return connections_[static_cast<std::size_t>(descriptor)]; }

    int epoll_{-1}, http_{-1}, https_{-1};
    SSL_CTX* tls_{nullptr};
    std::vector<connection> connections_;  // by descriptor
    std::deque<delayed_answer> delayed_;   // one delay for all, so they fall due in order
    std::vector<nanoseconds> arrived_;
    figures seen_;
    nanoseconds delay_{0};
    unsigned long long awaited_{0};
    nanoseconds awaited_until_{never};
    std::string typed_;
    bool ended_{false};
    std::unique_ptr<char[]> room_{new char[room_size]};
    static constexpr std::size_t room_size = 256 * 1024;
};

receiver::receiver(const char* certificate, const char* key) {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) die("epoll_create1");
    std::uint16_t http_port = 0;
    std::uint16_t https_port = 0;
    http_ = listen_on(http_port);
    if (certificate != nullptr) {
        tls_ = ::SSL_CTX_new(::TLS_server_method());
        if (::SSL_CTX_use_certificate_chain_file(tls_, certificate) != 1 || ::SSL_CTX_use_PrivateKey_file(tls_, key, SSL_FILETYPE_PEM) != 1) {
            std::fprintf(stderr, "certificate or key cannot be read\n");
            std::exit(1);
        }
        // One read per record instead of two.
        ::SSL_CTX_set_read_ahead(tls_, 1);
        https_ = listen_on(https_port);
    }
    ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    watch(STDIN_FILENO);
    std::printf("{\"http\": %u, \"https\": %u}\n", http_port, https_port);
    std::fflush(stdout);
}

int receiver::listen_on(std::uint16_t& port) const {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (descriptor < 0 || ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(descriptor, 4096) != 0 ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        die("listen");
    port = ntohs(address.sin_port);
    watch(descriptor);
    return descriptor;
}

void receiver::watch(int descriptor) const {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.fd = descriptor;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &wanted) != 0) die("epoll_ctl");
}

void receiver::accept_all(int listener, bool tls) {
    for (;;) {
        const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0) return;
        const int yes = 1;
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (connections_.size() <= static_cast<std::size_t>(descriptor)) connections_.resize(static_cast<std::size_t>(descriptor) + 1);
        auto& c = at(descriptor);
        c.rest.clear();
        c.open = true;
        c.shaking_hands = tls;
        if (tls) {
            c.tls = ::SSL_new(tls_);
            ::SSL_set_fd(c.tls, descriptor);
            ::SSL_set_accept_state(c.tls);
        }
        ++seen_.connections;
        watch(descriptor);
    }
}

void receiver::close(int descriptor) {
    auto& c = at(descriptor);
    if (!c.open) return;
    if (c.tls != nullptr) ::SSL_free(c.tls);
    c.tls = nullptr;
    c.open = false;
    ++c.generation;
    ::close(descriptor);
}

// One read: what does not fit into the room makes epoll report the connection again.
void receiver::read_plain(int descriptor) {
    const auto got = ::recv(descriptor, room_.get(), room_size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0 || !take(descriptor, {room_.get(), static_cast<std::size_t>(got)})) close(descriptor);
}

void receiver::read_tls(int descriptor) {
    auto& c = at(descriptor);
    SSL* tls = c.tls;
    if (c.shaking_hands) {
        const int done = ::SSL_do_handshake(tls);
        if (done != 1) {
            if (::SSL_get_error(tls, done) != SSL_ERROR_WANT_READ) close(descriptor);
            return;
        }
        c.shaking_hands = false;
        if (::SSL_has_pending(tls) == 0) return;
    }
    do {
        const int got = ::SSL_read(tls, room_.get(), static_cast<int>(room_size));
        if (got <= 0) {
            if (::SSL_get_error(tls, got) != SSL_ERROR_WANT_READ) close(descriptor);
            return;
        }
        if (!take(descriptor, {room_.get(), static_cast<std::size_t>(got)})) {
            close(descriptor);
            return;
        }
    } while (::SSL_has_pending(tls) != 0);
}

// The value of Content-Length; npos when there is none.
std::size_t body_length(std::string_view head) {
    constexpr std::string_view name = "content-length:";
    for (auto at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at + 2)) {
        const auto line = head.substr(at + 2);
        if (line.size() <= name.size() || ::strncasecmp(line.data(), name.data(), name.size()) != 0) continue;
        auto value = line.substr(name.size());
        value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
        std::size_t length = 0;
        const auto read = std::from_chars(value.data(), value.data() + value.size(), length);
        return read.ec == std::errc{} ? length : std::string_view::npos;
    }
    return std::string_view::npos;
}

bool receiver::take(int descriptor, std::string_view came) {
    auto& c = at(descriptor);
    const bool kept = !c.rest.empty();
    if (kept) c.rest.append(came);
    std::string_view all = kept ? std::string_view{c.rest} : came;
    const auto moment = now();
    int answered = 0;
    while (!all.empty()) {
        const auto end = all.find("\r\n\r\n");
        if (end == std::string_view::npos) break;
        const auto length = body_length(all.substr(0, end + 2));
        if (length == std::string_view::npos) {
            ++seen_.bad;
            return false;
        }
        if (all.size() - end - 4 < length) break;
        note(all.substr(end + 4, length), moment);
        all.remove_prefix(end + 4 + length);
        if (delay_ == 0) {
            ++answered;
        } else {
            delayed_.push_back({moment + delay_, descriptor, c.generation});
            seen_.most_in_flight = std::max(seen_.most_in_flight, delayed_.size());
        }
    }
    if (kept) {
        c.rest.erase(0, c.rest.size() - all.size());
    } else {
        c.rest.assign(all);
    }
    for (; answered > 0; --answered) send(descriptor, answer);
    return true;
}

void receiver::note(std::string_view body, nanoseconds at) {
    ++seen_.requests;
    if (seen_.first == 0) seen_.first = at;
    seen_.last = at;
    auto begin = body.find(number_name);
    std::uint64_t number = UINT64_MAX;
    if (begin != std::string_view::npos) {
        begin += number_name.size();
        begin = std::min(body.find_first_not_of(' ', begin), body.size());
        std::from_chars(body.data() + begin, body.data() + body.size(), number);
    }
    if (number >= arrived_.size()) {
        ++seen_.without_number;
    } else if (arrived_[number] != 0) {
        ++seen_.duplicates;
    } else {
        arrived_[number] = at;
        ++seen_.unique;
    }
}

// An answer of some forty bytes always fits a socket whose peer waits for it; a peer that does not read loses its connection.
void receiver::send(int descriptor, std::string_view bytes) {
    auto& c = at(descriptor);
    const auto size = static_cast<int>(bytes.size());
    const auto sent =
        c.tls != nullptr ? ::SSL_write(c.tls, bytes.data(), size) : static_cast<int>(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    if (sent != size) {
        ++seen_.bad;
        ::shutdown(descriptor, SHUT_RDWR);  // closed when epoll reports it
    }
}

void receiver::answer_due() {
    if (delayed_.empty()) return;
    const auto moment = now();
    while (!delayed_.empty() && delayed_.front().due <= moment) {
        const auto next = delayed_.front();
        delayed_.pop_front();
        const auto& c = at(next.descriptor);
        if (c.open && c.generation == next.generation) send(next.descriptor, answer);
    }
}

void receiver::print_stats() const {
    std::printf("{\"requests\": %llu, \"unique\": %llu, \"duplicates\": %llu, \"without_number\": %llu, \"bad\": %llu, ", seen_.requests, seen_.unique,
                seen_.duplicates, seen_.without_number, seen_.bad);
    std::printf("\"connections\": %llu, \"most_in_flight\": %zu, \"first\": %lld, \"last\": %lld}\n", seen_.connections, seen_.most_in_flight, seen_.first,
                seen_.last);
    std::fflush(stdout);
}

void receiver::command(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "reset") {
        std::size_t events = 0;
        words >> events >> delay_;
        delay_ *= 1000;  // microseconds
        arrived_.assign(events, 0);
        seen_ = {};
        print_stats();
    } else if (verb == "wait") {
        nanoseconds milliseconds = 0;
        words >> awaited_ >> milliseconds;
        awaited_until_ = now() + milliseconds * 1'000'000;
    } else if (verb == "arrivals") {
        std::string path;
        words >> path;
        std::FILE* out = std::fopen(path.c_str(), "w");
        if (out == nullptr) die("arrivals");
        for (std::size_t i = 0; i < arrived_.size(); ++i) {
            if (arrived_[i] != 0) std::fprintf(out, "%zu %lld\n", i, arrived_[i]);
        }
        std::fclose(out);
        print_stats();
    } else {
        print_stats();
    }
}

void receiver::commands() {
    char room[4096];
    const auto got = ::read(STDIN_FILENO, room, sizeof room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    ended_ = got <= 0;
    typed_.append(room, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    for (auto end = typed_.find('\n'); end != std::string::npos; end = typed_.find('\n')) {
        command(typed_.substr(0, end));
        typed_.erase(0, end + 1);
    }
}

void receiver::run() {
    std::vector<epoll_event> ready(1024);
    while (!ended_) {
        const auto until = std::min(delayed_.empty() ? never : delayed_.front().due, awaited_until_);
        const auto left = until == never ? 0 : std::max<nanoseconds>(0, until - now());
        const timespec pause{left / 1'000'000'000, left % 1'000'000'000};
        const int count = ::epoll_pwait2(epoll_, ready.data(), static_cast<int>(ready.size()), until == never ? nullptr : &pause, nullptr);
        if (count < 0 && errno != EINTR) die("epoll_pwait2");
        for (int i = 0; i < count; ++i) {
            const int descriptor = ready[static_cast<std::size_t>(i)].data.fd;
            if (descriptor == STDIN_FILENO) {
                commands();
            } else if (descriptor == http_ || descriptor == https_) {
                accept_all(descriptor, descriptor == https_);
            } else {
                const auto& c = at(descriptor);
                if (c.open) (this->*(c.tls != nullptr ? &receiver::read_tls : &receiver::read_plain))(descriptor);
            }
        }
        answer_due();
        if (awaited_until_ != never && (seen_.unique >= awaited_ || now() >= awaited_until_)) {
            awaited_until_ = never;
            print_stats();
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    receiver one(argc > 2 ? argv[1] : nullptr, argc > 2 ? argv[2] : nullptr);
    one.run();
}
