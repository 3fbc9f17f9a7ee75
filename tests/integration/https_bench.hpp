// Role: a sender on its own event loop, driven by the test's thread; every test ends with the proof that nothing is left pending.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "https/beast_sender.hpp"
#include "support/catch.hpp"
#include "support/raw_receiver.hpp"

namespace outboxd::testkit {

using namespace std::chrono_literals;
using lifecycle::error_class;

inline std::string head_of(const wire::url& address, std::size_t body, std::string_view extra = "") {
    return "POST " + address.target + " HTTP/1.1\r\nHost: " + address.authority + "\r\nContent-Length: " + std::to_string(body) + "\r\n" + std::string(extra) +
           "\r\n";
}

inline https::sender_options open_options() {
    https::sender_options options;
    options.allow_http = true;
    return options;
}

class https_bench {
public:
    explicit https_bench(https::sender_options options = open_options()) : sender(https::make_sender(context, std::move(options))) {}
    https_bench(const https_bench&) = delete;
    https_bench& operator=(const https_bench&) = delete;
    ~https_bench() {
        if (sender) finish();
    }

    static std::shared_ptr<ports::route> route(const std::string& url, ports::tls_profile tls = {}) {
        auto made = std::make_shared<ports::route>();
        const auto address = wire::parse_url(url);
        INFO(url);
        REQUIRE(address.has_value());
        made->address = *address;
        made->trusted = true;
        made->tls = std::move(tls);
        return made;
    }

    // Begins a send; run_until_replies() brings its reply.
    void begin(std::shared_ptr<const ports::route> where, std::string body = "{}", std::chrono::milliseconds timeout = 10s, std::string_view extra = "") {
        const std::size_t index = replies.size();
        replies.emplace_back();
        bodies.push_back(std::make_unique<std::string>(std::move(body)));
        heads.push_back(std::make_unique<std::string>(head_of(where->address, bodies.back()->size(), extra)));
        ++open;
        auto sending = sender->send(std::move(where), *heads.back(), *bodies.back(), base::boot_clock::now() + timeout);
        boost::asio::co_spawn(context, std::move(sending), [this, index](std::exception_ptr error, ports::send_reply reply) {
            --open;
            if (error) thrown = true;
            replies[index] = std::move(reply);
        });
    }
    void run_until_replies() {
        context.restart();
        while (open > 0 && context.run_one() > 0) {
        }
        REQUIRE(open == 0);
        REQUIRE_FALSE(thrown);
    }
    ports::send_reply send(std::shared_ptr<const ports::route> where, std::string body = "{}", std::chrono::milliseconds timeout = 10s,
                           std::string_view extra = "") {
        begin(std::move(where), std::move(body), timeout, extra);
        run_until_replies();
        return replies.back();
    }
    // Lets the loop run until the condition holds; false after `limit`.
    template <class Condition>
    bool run_until(Condition holds, std::chrono::milliseconds limit = 10s) {
        const auto end = std::chrono::steady_clock::now() + limit;
        context.restart();
        while (!holds()) {
            if (std::chrono::steady_clock::now() > end) return false;
            context.run_one_for(20ms);
            if (context.stopped()) context.restart();
        }
        return true;
    }
    // After close() and the last reply the loop ends by itself.
    void finish() {
        sender->close();
        context.restart();
        context.run_for(5s);
        CHECK(context.stopped());
        sender.reset();
    }

    boost::asio::io_context context{1};
    std::unique_ptr<https::network_sender> sender;
    std::vector<ports::send_reply> replies;
    std::vector<std::unique_ptr<std::string>> bodies;
    std::vector<std::unique_ptr<std::string>> heads;
    int open{0};
    bool thrown{false};
};

inline double seconds_since(std::chrono::steady_clock::time_point begun) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace outboxd::testkit
