// Role: a listener under test on a thread of its own, and a client that writes any bytes. Promise: everything ends with the scope.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "admin/http_listener.hpp"

namespace admin_test {

class running_listener {
public:
    explicit running_listener(outboxd::admin::options how, outboxd::admin::handlers what = {}) {
        how.listen = "127.0.0.1:0";
        listener_ = outboxd::admin::make_listener(context_, std::move(how), std::move(what));
        port_ = listener_->port();
        thread_ = std::thread([this] { context_.run(); });
    }
    ~running_listener() { stop(); }
    running_listener(const running_listener&) = delete;
    running_listener& operator=(const running_listener&) = delete;

    // Returns when the loop has run dry; false when it has not within the limit.
    bool stop(std::chrono::milliseconds limit = std::chrono::seconds{5}) {
        if (!thread_.joinable()) return true;
        boost::asio::post(context_, [this] { listener_->stop(); });
        auto joined = std::async(std::launch::async, [this] { thread_.join(); });
        const bool dry = joined.wait_for(limit) == std::future_status::ready;
        if (!dry) context_.stop();
        joined.wait();
        return dry;
    }
    std::uint16_t port() const { return port_; }
    std::size_t connections() {
        std::promise<std::size_t> n;
        boost::asio::post(context_, [&] { n.set_value(listener_->connections()); });
        return n.get_future().get();
    }
    bool wait_for_connections(std::size_t n, std::chrono::milliseconds limit = std::chrono::seconds{10}) {
        const auto end = std::chrono::steady_clock::now() + limit;
        while (connections() != n) {
            if (std::chrono::steady_clock::now() > end) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds{2});
        }
        return true;
    }

private:
    boost::asio::io_context context_;
    std::unique_ptr<outboxd::admin::listener> listener_;
    std::uint16_t port_{0};
    std::thread thread_;
};

class client {
public:
    explicit client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
    }
    ~client() { ::close(fd_); }
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    bool connected() const { return connected_; }
    bool write(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
    }
    // Everything up to the end of the stream, or what came within the limit. `ended` tells which.
    std::string read_to_end(std::chrono::milliseconds limit = std::chrono::seconds{10}) {
        std::string all;
        const auto end = std::chrono::steady_clock::now() + limit;
        for (;;) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
            pollfd p{fd_, POLLIN, 0};
            if (left <= 0 || ::poll(&p, 1, static_cast<int>(left)) <= 0) return all;
            char buffer[65536];
            const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
            if (n <= 0) {
                ended_ = true;
                return all;
            }
            all.append(buffer, static_cast<std::size_t>(n));
        }
    }
    bool ended() const { return ended_; }

private:
    int fd_;
    bool connected_{false};
    bool ended_{false};
};

struct reply {
    int status{0};
    std::string head, body;
};

inline reply converse(std::uint16_t port, const std::string& request) {
    client c(port);
    c.write(request);
    const auto all = c.read_to_end();
    reply r;
    const auto split = all.find("\r\n\r\n");
    r.head = all.substr(0, split);
    if (split != std::string::npos) r.body = all.substr(split + 4);
    if (all.size() > 12) r.status = std::atoi(all.substr(9, 3).c_str());
    return r;
}

inline reply get(std::uint16_t port, const std::string& target, const std::string& more = "Host: localhost\r\n") {
    return converse(port, "GET " + target + " HTTP/1.1\r\n" + more + "Connection: close\r\n\r\n");
}

}  // namespace admin_test
