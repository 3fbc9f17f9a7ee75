#include "support/fake_store.hpp"

#include <algorithm>

namespace outboxd::testkit {

void fake_store::fail_call(int number, store_fault fault) {
    script_ = [number, fault](int n, std::string_view) { return n == number ? std::optional{fault} : std::nullopt; };
}

// Waits out the delay of a fault; gives the error that the call then ends with.
boost::asio::awaitable<std::optional<base::error>> fake_store::pass(base::milliseconds delay, base::errc code) {
    if (delay.count() > 0) {
        const std::shared_ptr<ports::alarm> alarm{time_.make_alarm()};
        std::erase_if(waits_, [](const auto& w) { return w.expired(); });
        waits_.push_back(alarm);
        const auto until = time_.now() + delay;
        while (!aborted_ && time_.now() < until) co_await alarm->wait(until);
    }
    if (aborted_) co_return base::make_error(base::errc::cancelled, "the wait for the database was ended");
    co_return base::make_error(code, "a fault of the test: " + std::string{base::to_string(code)});
}

template <class T, class Work>
ports::async_result<T> fake_store::perform(std::string_view name, Work work) {
    if (aborted_) co_return base::make_error(base::errc::cancelled, "the wait for the database was ended");
    names_.emplace_back(name);
    const auto fault = script_ ? script_(++calls_, name) : (++calls_, std::optional<store_fault>{});
    if (!fault) co_return work();
    using kind = store_fault::kind;
    if (fault->what == kind::slow) {
        auto ended = co_await pass(fault->delay, base::errc::timeout);
        if (aborted_) co_return std::move(*ended);
        base::result<T> reply = work();
        ended = co_await pass(fault->reply_delay, base::errc::timeout);
        if (aborted_) co_return std::move(*ended);
        co_return reply;
    }
    if (fault->what == kind::reply_lost) (void)work();
    if (fault->what == kind::done_late && later_) later_(fault->delay + fault->reply_delay, [work]() mutable { (void)work(); });
    auto why = co_await pass(fault->delay, fault->what == kind::late ? base::errc::timeout : fault->code);
    co_return std::move(*why);
}

ports::async_result<ports::claim_reply> fake_store::claim(ports::claim_request request) {
    return perform<ports::claim_reply>("claim", [this, request = std::move(request)] { return database_.claim(request); });
}

ports::async_result<int> fake_store::bump_epoch(std::int64_t relay) {
    return perform<int>("bump_epoch", [this, relay]() -> base::result<int> {
        const auto epoch = database_.bump_epoch(relay);
        if (!epoch) return base::make_error(base::errc::lease_lost, "relay " + std::to_string(relay) + " is not registered any more");
        return *epoch;
    });
}

ports::async_result<std::int64_t> fake_store::release_unknown(std::int64_t relay, std::vector<std::int64_t> held) {
    return perform<std::int64_t>("release_unknown", [this, relay, held = std::move(held)]() -> base::result<std::int64_t> { return database_.release_unknown(relay, held); });
}

ports::async_result<std::vector<std::int64_t>> fake_store::settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) {
    return perform<std::vector<std::int64_t>>("settle", [this, relay, batch]() -> base::result<std::vector<std::int64_t>> { return database_.settle(relay, batch); });
}

ports::async_result<ports::registration> fake_store::register_relay(ports::relay_identity, base::milliseconds lease) {
    return perform<ports::registration>("register_relay", [this, lease]() -> base::result<ports::registration> { return database_.register_relay(lease); });
}

ports::async_result<ports::beat_reply> fake_store::beat(ports::beat_request request) {
    return perform<ports::beat_reply>("beat", [this, request = std::move(request)]() -> base::result<ports::beat_reply> { return database_.beat(request); });
}

ports::async_result<void> fake_store::set_wake(std::int64_t relay, bool wake) {
    return perform<void>("set_wake", [this, relay, wake]() -> base::result<void> {
        const auto it = database_.relays.find(relay);
        if (it != database_.relays.end()) it->second.wake = wake;
        return {};
    });
}

ports::async_result<std::int64_t> fake_store::retire_relay(std::int64_t relay) {
    return perform<std::int64_t>("retire_relay", [this, relay]() -> base::result<std::int64_t> { return database_.retire_relay(relay); });
}

ports::async_result<std::string> fake_store::endpoint_digest() {
    return perform<std::string>("endpoint_digest", [this]() -> base::result<std::string> { return database_.endpoint_digest(); });
}

ports::async_result<ports::shared_state> fake_store::load_endpoints() {
    return perform<ports::shared_state>("load_endpoints", [this]() -> base::result<ports::shared_state> {
        ports::shared_state state;
        for (const auto& [name, e] : database_.endpoints) {
            state.endpoints.push_back(e.row);
            if (e.failing_since) state.endpoints.back().failing_for = std::chrono::duration_cast<base::milliseconds>(database_.now() - *e.failing_since);
        }
        state.digest = database_.endpoint_digest();
        return state;
    });
}

ports::async_result<void> fake_store::disable_endpoint(std::string name, std::string reason) {
    return perform<void>("disable_endpoint", [this, name = std::move(name), reason = std::move(reason)]() -> base::result<void> {
        const auto it = database_.endpoints.find(name);
        if (it == database_.endpoints.end() || !it->second.row.enabled) return {};
        it->second.row.enabled = false;
        it->second.row.disabled_reason = reason;
        database_.endpoint_changed();
        return {};
    });
}

ports::async_result<std::vector<ports::disabled_endpoint>> fake_store::note_endpoints(std::vector<ports::endpoint_note> notes) {
    return perform<std::vector<ports::disabled_endpoint>>("note_endpoints", [this, notes = std::move(notes)]() -> base::result<std::vector<ports::disabled_endpoint>> { return database_.note_endpoints(notes); });
}

ports::async_result<std::vector<ports::circuit_row>> fake_store::load_circuits() {
    return perform<std::vector<ports::circuit_row>>("load_circuits", [this]() -> base::result<std::vector<ports::circuit_row>> {
        std::vector<ports::circuit_row> rows;
        for (const auto& [lane, c] : database_.circuits) {
            const auto left = std::chrono::duration_cast<base::milliseconds>(c.open_until - database_.now());
            rows.push_back({lane, c.state, std::max(left, base::milliseconds{0}), c.last_error});
        }
        return rows;
    });
}

ports::async_result<ports::circuit_row> fake_store::circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) {
    return perform<ports::circuit_row>("circuit_trip", [this, lane = std::move(lane), settings, error = std::move(error)]() -> base::result<ports::circuit_row> { return database_.circuit_trip(lane, settings, error); });
}

ports::async_result<bool> fake_store::circuit_probe(std::string lane, std::int64_t, int max_probes, base::milliseconds hold) {
    return perform<bool>("circuit_probe", [this, lane = std::move(lane), max_probes, hold]() -> base::result<bool> { return database_.circuit_probe(lane, max_probes, hold); });
}

ports::async_result<lifecycle::circuit_state> fake_store::circuit_result(std::string lane, std::int64_t, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) {
    return perform<lifecycle::circuit_state>("circuit_result", [this, lane = std::move(lane), ok, settings, error = std::move(error)]() -> base::result<lifecycle::circuit_state> {
        return database_.circuit_result(lane, ok, settings, error);
    });
}

ports::async_result<std::vector<ports::rescued_row>> fake_store::rescue(std::int64_t relay, int max_rescues, int limit) {
    return perform<std::vector<ports::rescued_row>>("rescue", [this, relay, max_rescues, limit]() -> base::result<std::vector<ports::rescued_row>> { return database_.rescue(relay, max_rescues, limit); });
}

ports::async_result<std::int64_t> fake_store::route(int limit, base::milliseconds grace) {
    return perform<std::int64_t>("route", [this, limit, grace]() -> base::result<std::int64_t> { return database_.route(limit, grace); });
}

ports::async_result<std::int64_t> fake_store::sweep(int batch) {
    return perform<std::int64_t>("sweep", [this, batch]() -> base::result<std::int64_t> { return database_.sweep(batch); });
}

ports::async_result<std::int64_t> fake_store::purge(base::milliseconds, base::milliseconds, base::milliseconds, int) {
    return perform<std::int64_t>("purge", []() -> base::result<std::int64_t> { return std::int64_t{0}; });
}

ports::async_result<ports::delivery_store::counts> fake_store::count() {
    return perform<counts>("count", [this]() -> base::result<counts> { return database_.count(); });
}

ports::async_result<std::optional<ports::delivery_store::dead_rows>> fake_store::find_dead_rows() {
    return perform<std::optional<dead_rows>>("find_dead_rows", []() -> base::result<std::optional<dead_rows>> { return std::optional<dead_rows>{}; });
}

ports::async_result<void> fake_store::check_ready() {
    return perform<void>("check_ready", [this]() -> base::result<void> {
        if (not_ready) return *not_ready;
        return {};
    });
}

void fake_store::abort() {
    aborted_ = true;
    for (const auto& w : waits_) {
        if (const auto alarm = w.lock()) alarm->ring();
    }
}

}  // namespace outboxd::testkit
