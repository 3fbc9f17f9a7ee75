#include "support/relay_process.hpp"

#include <boost/asio/co_spawn.hpp>
#include <exception>

namespace outboxd::testkit {

relay_process::relay_process(fake_database& database, relay_watch& watch, std::shared_ptr<const config::config> settings, process_setup setup)
    : time(context_, setup.seed), store(database, time), sender(time), watched_(store, watch, setup.number, time), metrics_("test"), watch_(watch), number_(setup.number) {
    time.advance_to(setup.now);
    if (setup.layer) layer_ = setup.layer(watched_);
    ports::delivery_store& top = layer_ ? static_cast<ports::delivery_store&>(*layer_) : watched_;
    sender.on_begin([this](const sent_request& r) { watch_.send_begins(number_, r); });
    sender.on_end([this](const sent_request& r, const ports::send_reply& reply) { watch_.send_ends(number_, r, reply); });
    relay_ = std::make_unique<relay::relay>(
        relay::parts{context_.get_executor(), std::move(settings), top, setup.wakeups ? this : nullptr, sender, time, metrics_, {"test", "localhost", number_, "test"}, {}});
}

relay_process::~relay_process() { kill(); }

void relay_process::run() { boost::asio::co_spawn(context_, live(), [this](const std::exception_ptr& e) { ended_with(e); }); }

void relay_process::drain(int max_passes, base::milliseconds timeout) {
    boost::asio::co_spawn(context_, live_until_drained(max_passes, timeout), [this](const std::exception_ptr& e) { ended_with(e); });
}

boost::asio::awaitable<void> relay_process::live() { (void)co_await relay_->run(); }

boost::asio::awaitable<void> relay_process::live_until_drained(int max_passes, base::milliseconds timeout) { (void)co_await relay_->drain(max_passes, timeout); }

void relay_process::ended_with(const std::exception_ptr& error) {
    ended_ = true;
    if (!error) return;
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        failure_ = e.what();
    }
}

void relay_process::stop() {
    if (running()) relay_->stop();
}

void relay_process::abort() {
    if (running()) relay_->abort();
}

void relay_process::kill() {
    if (!relay_) return;
    context_.shutdown();
    relay_.reset();
    watch_.died(number_);
}

void relay_process::advance_to(base::boot_time now) {
    if (frozen_ || !relay_) return;
    time.advance_to(now);
    if (!waiting_notes_.empty()) {
        const auto notes = std::move(waiting_notes_);
        waiting_notes_.clear();
        for (const auto& n : notes) notify(n);
    }
    time.settle();
}

void relay_process::notify(std::string payload) {
    if (!running() || !handler_) return;
    if (frozen_) {
        waiting_notes_.push_back(std::move(payload));
        return;
    }
    if (payload == "listening" || payload == "deaf") listening_ = payload == "listening";
    handler_(payload);
}

}  // namespace outboxd::testkit
