// Role: what one request costs the sender: N POSTs of 1 KB over C keep-alive connections, through the public interface, to a receiver that is already running.
//   micro_https URL [COUNT] [CONNECTIONS] [CA_FILE]
// Prints requests per second and the CPU time of this process (user, kernel) per request.
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "https/beast_sender.hpp"

namespace asio = boost::asio;
using namespace outboxd;

namespace {

struct run {
    ports::https_sender& sender;
    std::shared_ptr<const ports::route> route;
    std::string body;
    int left;
    int failed{0};
    int working{0};
};

asio::awaitable<void> send_many(run& r) {
    std::string head;
    ++r.working;
    while (r.left > 0) {
        const int id = r.left--;
        head = "POST " + r.route->address.target + " HTTP/1.1\r\nHost: " + r.route->address.authority +
               "\r\nUser-Agent: micro\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(r.body.size()) +
               "\r\nX-Bench-Id: " + std::to_string(id) + "\r\n\r\n";
        const ports::send_reply reply = co_await r.sender.send(r.route, head, r.body, base::boot_clock::now() + std::chrono::seconds{15});
        if (!reply.complete || reply.status != 200) {
            if (r.failed++ == 0) std::fprintf(stderr, "first failure: status %d, %s\n", reply.status, reply.error.c_str());
        }
    }
    if (--r.working == 0) r.sender.close();
}

double seconds_of(const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: micro_https URL [COUNT] [CONNECTIONS] [CA_FILE]\n");
        return 2;
    }
    const int count = argc > 2 ? std::atoi(argv[2]) : 100'000;
    const int connections = argc > 3 ? std::atoi(argv[3]) : 128;
    const auto address = wire::parse_url(argv[1]);
    if (!address) {
        std::fprintf(stderr, "%s\n", address.error().text.c_str());
        return 2;
    }
    auto route = std::make_shared<ports::route>();
    route->address = *address;
    route->trusted = true;
    if (argc > 4) route->tls.ca_file = argv[4];

    asio::io_context context(1);
    https::sender_options options;
    options.allow_http = true;
    const auto sender = https::make_sender(context, options);
    run all{*sender, route, "{\"pad\":\"" + std::string(1000, 'x') + "\"}", count};

    rusage before{};
    ::getrusage(RUSAGE_SELF, &before);
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < connections; ++i) asio::co_spawn(context, send_many(all), asio::detached);
    context.run();
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);

    const double user = (seconds_of(after.ru_utime) - seconds_of(before.ru_utime)) * 1e6 / count;
    const double kernel = (seconds_of(after.ru_stime) - seconds_of(before.ru_stime)) * 1e6 / count;
    const auto totals = sender->connection_totals();
    std::printf("%d requests, %d failed, %.0f/s, CPU %.2f us user + %.2f us kernel = %.2f us per request; connections opened %llu, reused %llu\n", count,
                all.failed, count / elapsed, user, kernel, user + kernel, static_cast<unsigned long long>(totals.opened),
                static_cast<unsigned long long>(totals.reused));
    return all.failed == 0 ? 0 : 1;
}
