#include "support/fake_sender.hpp"

#include <algorithm>
#include <charconv>

namespace outboxd::testkit {

std::string_view field_of(std::string_view head, std::string_view name) {
    const std::string start = "\r\n" + std::string{name} + ": ";
    const auto at = head.find(start);
    if (at == std::string_view::npos) return {};
    const auto value = head.substr(at + start.size());
    return value.substr(0, value.find("\r\n"));
}

namespace {

sent_request read_request(const ports::route& where, std::string_view head, std::string_view body) {
    sent_request r;
    r.origin = where.address.origin;
    r.target = where.address.target;
    r.event_id = field_of(head, "webhook-id");
    r.idempotency_key = field_of(head, "Idempotency-Key");
    const auto attempt = field_of(head, "Outbox-Attempt");
    (void)std::from_chars(attempt.data(), attempt.data() + attempt.size(), r.attempt);
    r.body = body;
    return r;
}

ports::send_reply reply_of(const receiver_act& act, bool late) {
    ports::send_reply reply;
    if (late) {
        reply.error_class = lifecycle::error_class::timeout;
        reply.error = "no answer in time";
    } else if (act.status != 0) {
        reply.complete = true;
        reply.status = act.status;
        reply.retry_after = act.retry_after;
    } else {
        reply.error_class = act.fault;
        reply.own_fault = act.own_fault;
        reply.error = "a fault of the test";
    }
    return reply;
}

}  // namespace

boost::asio::awaitable<void> fake_sender::pass(base::boot_time until) {
    const std::shared_ptr<ports::alarm> alarm{time_.make_alarm()};
    std::erase_if(waits_, [](const auto& w) { return w.expired(); });
    waits_.push_back(alarm);
    while (!aborted_ && time_.now() < until) co_await alarm->wait(until);
}

boost::asio::awaitable<ports::send_reply> fake_sender::send(std::shared_ptr<const ports::route> where, std::string_view head, std::string_view body, base::boot_time deadline) {
    sent_request request = read_request(*where, head, body);
    request.number = ++sends_;
    request.begun = time_.now();
    request.deadline = deadline;
    if (on_begin_) on_begin_(request);
    const receiver_act act = script_ ? script_(request) : receiver_act{};
    const auto answered = request.begun + act.after;
    const bool late = answered >= deadline;
    co_await pass(late ? deadline : answered);
    ports::send_reply reply = reply_of(act, late);
    if (aborted_) {
        reply = ports::send_reply{};
        reply.error_class = lifecycle::error_class::local;
        reply.own_fault = true;
        reply.error = "the request was cut off";
    }
    if (on_end_) on_end_(request, reply);
    co_return reply;
}

void fake_sender::abort() {
    aborted_ = true;
    for (const auto& w : waits_) {
        if (const auto alarm = w.lock()) alarm->ring();
    }
}

}  // namespace outboxd::testkit
