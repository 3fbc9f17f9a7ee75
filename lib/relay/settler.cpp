#include "relay/settler.hpp"

#include <algorithm>
#include <unordered_set>

#include "telemetry/log.hpp"

namespace outboxd::relay {

namespace {

constexpr std::size_t max_batch = 1024;
// Settlements wait this long for company, unless an ordering key waits for one: a statement and its commit cost as much as a hundred rows, and nobody else waits for it.
constexpr auto gather_time = std::chrono::milliseconds{10};
constexpr std::size_t gather_below = 256;

bool database_refuses_value(base::errc code) { return code == base::errc::database_error || code == base::errc::invalid_input; }

}  // namespace

settler::settler(ports::delivery_store& store, ports::time_source& time, telemetry::metrics& metrics) : store_(store), time_(time), metrics_(metrics), work_(time.make_alarm()) {}

void settler::add(settled one) {
    urgent_ = urgent_ || one.row->row.ordering_key.has_value();
    waiting_.push_back(std::move(one));
    if (waiting_.size() == 1 || waiting_.size() == gather_below || urgent_) work_->ring();
}

void settler::stop(base::boot_time deadline) {
    stopping_ = true;
    deadline_ = deadline;
    work_->ring();
}

asio::awaitable<void> settler::run() {
    int failures = 0;
    while (true) {
        if (waiting_.empty()) {
            if (stopping_) co_return;
            co_await work_->wait(base::boot_time::max());
            continue;
        }
        co_await gather();
        std::vector<settled> batch = next_batch();
        under_way_ = &batch;
        bool written = co_await write(batch);
        while (!written) {
            if (stopping_ && time_.now() >= deadline_) {
                under_way_ = nullptr;
                telemetry::log(telemetry::level::error, "settle_given_up", "results could not be written before the end; their deliveries are sent again after the lease",
                               {{"count", static_cast<std::int64_t>(batch.size() + waiting_.size())}, {"error", std::string_view{last_error_}}});
                co_return;
            }
            co_await pause_after_failure(++failures);
            co_await wait_for_claim();
            written = co_await write(batch);
        }
        under_way_ = nullptr;
        failures = 0;
    }
}

// Repeated after the row was claimed again, a retry would count its attempt twice and a release would take the new claim away.
bool settler::taken_already(std::int64_t delivery, int attempts) {
    if (under_way_ == nullptr) return false;
    for (auto& one : *under_way_) {
        if (one.what.delivery != delivery || one.taken) continue;
        const bool sets_free = one.what.outcome == lifecycle::outcome::retried || one.what.outcome == lifecycle::outcome::released;
        const bool counted = one.what.outcome == lifecycle::outcome::retried && one.what.counts;
        one.taken = sets_free && (!counted || attempts > one.row->row.attempts);
        return one.taken;
    }
    return false;
}

asio::awaitable<void> settler::gather() {
    if (waiting_.size() >= gather_below || urgent_ || stopping_) co_return;
    const auto until = time_.now() + gather_time;
    while (waiting_.size() < gather_below && !urgent_ && !stopping_ && time_.now() < until) co_await work_->wait(until);
}

// Settlements of one relay id: after a lost lease some of them still belong to the old one.
std::vector<settled> settler::next_batch() {
    std::vector<settled> batch;
    const auto relay = waiting_.front().row->relay;
    while (!waiting_.empty() && batch.size() < max_batch && waiting_.front().row->relay == relay) {
        batch.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
    }
    urgent_ = false;
    writing_ = batch.size();
    return batch;
}

asio::awaitable<bool> settler::write(std::vector<settled>& batch) {
    const auto relay = batch.front().row->relay;
    const bool repeated = failing_;
    std::vector<lifecycle::settlement> values;
    values.reserve(batch.size());
    for (auto& one : batch) {
        if (!one.taken) values.push_back(one.what);
    }
    if (values.empty()) {
        writing_ = 0;
        failing_ = false;
        report(batch, {}, repeated);
        co_return true;
    }
    const auto begun = time_.now();
    auto changed = co_await store_.settle(relay, values);
    if (changed) {
        metrics_.settle_took(std::chrono::duration<double>(time_.now() - begun).count(), static_cast<int>(batch.size()));
        if (failing_) {
            failing_ = false;
            telemetry::log(telemetry::level::info, "settle_recovered", "results are written again", {{"count", static_cast<std::int64_t>(batch.size())}});
        }
        writing_ = 0;
        report(batch, *changed, repeated);
        co_return true;
    }
    last_error_ = changed.error().text;
    // One value that the database cannot take must not hold the others: halve until it stands alone, then hand that delivery back with the reason.
    if (database_refuses_value(changed.error().code) && batch.size() > 1) {
        std::vector<settled> rest(std::make_move_iterator(batch.begin() + static_cast<std::ptrdiff_t>(batch.size() / 2)), std::make_move_iterator(batch.end()));
        batch.resize(batch.size() / 2);
        for (auto it = rest.rbegin(); it != rest.rend(); ++it) waiting_.push_front(std::move(*it));
        writing_ = batch.size();
        co_return false;
    }
    if (database_refuses_value(changed.error().code) && !batch.front().what.error.empty() && batch.front().what.outcome != lifecycle::outcome::released) {
        batch.front().what.error = "the text of this attempt was refused by the database";
        batch.front().what.response_excerpt.clear();
    }
    if (!failing_) {
        failing_ = true;
        telemetry::log(telemetry::level::warn, "settle_failed", "results cannot be written now; they are kept and written first",
                       {{"count", static_cast<std::int64_t>(batch.size() + waiting_.size())}, {"error", std::string_view{last_error_}}});
    }
    if (changed.error().code == base::errc::database_schema && on_schema_fault_) on_schema_fault_(changed.error());
    co_return false;
}

asio::awaitable<void> settler::pause_after_failure(int failures) {
    const auto pause = std::chrono::milliseconds{std::min(2000, 50 << std::min(failures, 6))};
    const auto until = std::min(time_.now() + pause, deadline_);
    while (time_.now() < until) {
        co_await work_->wait(until);
        if (stopping_) break;
    }
}

asio::awaitable<void> settler::wait_for_claim() {
    while (claim_under_way_ && time_.now() < deadline_) co_await work_->wait(std::min(deadline_, time_.now() + std::chrono::milliseconds{20}));
}

void settler::report(std::vector<settled>& batch, const std::vector<std::int64_t>& changed, bool repeated) {
    std::unordered_set<std::int64_t> really(changed.begin(), changed.end());
    std::int64_t missing = 0;
    for (auto& one : batch) {
        const bool took = one.taken || really.contains(one.what.delivery);
        if (!took && !repeated && one.what.outcome != lifecycle::outcome::released) ++missing;
        on_settled_(one, took || repeated);
    }
    if (missing > 0) {
        metrics_.lease_lost();
        telemetry::log_limited(telemetry::level::warn, "settlement_refused", "", "the database did not take some settlements: the deliveries are another relay's by now, or were removed by hand",
                               {{"count", missing}});
    }
}

}  // namespace outboxd::relay
