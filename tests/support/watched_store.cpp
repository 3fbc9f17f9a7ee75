#include "support/watched_store.hpp"

namespace outboxd::testkit {

ports::async_result<ports::claim_reply> watched_store::claim(ports::claim_request request) {
    watch_.asks_claim(request);
    return below_.claim(std::move(request));
}

ports::async_result<int> watched_store::bump_epoch(std::int64_t relay) {
    auto epoch = co_await below_.bump_epoch(relay);
    if (epoch) watch_.epoch_told(relay, *epoch);
    co_return epoch;
}

ports::async_result<std::vector<std::int64_t>> watched_store::settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) {
    auto changed = co_await below_.settle(relay, batch);
    watch_.settled(process_, relay, batch, changed ? &*changed : nullptr);
    co_return changed;
}

ports::async_result<ports::registration> watched_store::register_relay(ports::relay_identity who, base::milliseconds lease) {
    const auto asked = time_.now();
    auto reply = co_await below_.register_relay(std::move(who), lease);
    if (reply) watch_.registered(process_, reply->relay, asked);
    co_return reply;
}

ports::async_result<ports::beat_reply> watched_store::beat(ports::beat_request request) {
    const auto asked = time_.now();
    auto reply = co_await below_.beat(std::move(request));
    if (reply) watch_.beaten(process_, reply->alive, asked);
    co_return reply;
}

ports::async_result<ports::shared_state> watched_store::load_endpoints() {
    auto reply = co_await below_.load_endpoints();
    if (reply) watch_.endpoints_loaded(process_, reply->endpoints);
    co_return reply;
}

ports::async_result<std::vector<ports::circuit_row>> watched_store::load_circuits() {
    auto reply = co_await below_.load_circuits();
    if (reply) watch_.circuits_loaded(process_, *reply);
    co_return reply;
}

// Whoever trips a circuit knows that it is open, whatever the database answers.
ports::async_result<ports::circuit_row> watched_store::circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) {
    watch_.circuit_shut(process_, lane);
    return below_.circuit_trip(std::move(lane), settings, std::move(error));
}

ports::async_result<bool> watched_store::circuit_probe(std::string lane, std::int64_t relay, int max_probes, base::milliseconds hold) {
    auto reply = co_await below_.circuit_probe(lane, relay, max_probes, hold);
    if (reply && *reply) watch_.probe_granted(process_, lane);
    co_return reply;
}

ports::async_result<lifecycle::circuit_state> watched_store::circuit_result(std::string lane, std::int64_t relay, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) {
    if (!ok) watch_.probe_returned(process_, lane);
    auto reply = co_await below_.circuit_result(std::move(lane), relay, ok, settings, std::move(error));
    co_return reply;
}

}  // namespace outboxd::testkit
