// Role: an https_sender without a network: a script decides what each receiver does, and every request is kept as the receiver saw it.
// Promise: no thread, no socket; time passes only through the given time_source; a reply never comes after the deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ports/https_sender.hpp"
#include "ports/time_source.hpp"

namespace outboxd::testkit {

/// One request as it went over the wire.
struct sent_request {
    int number{0};  ///< of this sender, from 1
    std::string origin;
    std::string target;
    std::string event_id;
    std::string idempotency_key;
    int attempt{0};
    std::string body;
    base::boot_time begun{};
    base::boot_time deadline{};
};

/// What the receiver does with it.
struct receiver_act {
    int status{200};                         ///< of the answer; 0: no answer, but the fault below
    base::milliseconds after{10};
    lifecycle::error_class fault{lifecycle::error_class::connect};
    bool own_fault{false};
    std::string retry_after;
    [[nodiscard]] static receiver_act answer(int status, base::milliseconds after = base::milliseconds{10}) { return {status, after, lifecycle::error_class::none, false, {}}; }
    [[nodiscard]] static receiver_act broken(lifecycle::error_class fault, base::milliseconds after = base::milliseconds{10}) { return {0, after, fault, false, {}}; }
    [[nodiscard]] static receiver_act hang() { return {0, std::chrono::hours{24}, lifecycle::error_class::timeout, false, {}}; }
};

class fake_sender final : public ports::https_sender {
public:
    explicit fake_sender(ports::time_source& time) : time_(time) {}

    using script = std::function<receiver_act(const sent_request&)>;
    void on_send(script s) { script_ = std::move(s); }
    /// Told of each request when it begins and when its reply is known.
    void on_begin(std::function<void(const sent_request&)> f) { on_begin_ = std::move(f); }
    void on_end(std::function<void(const sent_request&, const ports::send_reply&)> f) { on_end_ = std::move(f); }
    [[nodiscard]] int sends() const noexcept { return sends_; }

    boost::asio::awaitable<ports::send_reply> send(std::shared_ptr<const ports::route> where, std::string_view head, std::string_view body, base::boot_time deadline) override;
    void abort() override;
    void close() override {}
    void reload() override {}
    [[nodiscard]] totals connection_totals() const noexcept override { return {}; }

private:
    [[nodiscard]] boost::asio::awaitable<void> pass(base::boot_time until);

    ports::time_source& time_;
    script script_;
    std::function<void(const sent_request&)> on_begin_;
    std::function<void(const sent_request&, const ports::send_reply&)> on_end_;
    std::vector<std::weak_ptr<ports::alarm>> waits_;
    int sends_{0};
    bool aborted_{false};
};

/// The value of a header field in a request head; empty: not there.
[[nodiscard]] std::string_view field_of(std::string_view head, std::string_view name);

}  // namespace outboxd::testkit
