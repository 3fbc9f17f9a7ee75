// Role: a delivery_store that hands every call on to another: the base of layers that watch or lie.
// Promise: adds nothing; a layer overrides only what it is about.
#pragma once

#include <utility>

#include "ports/delivery_store.hpp"

namespace outboxd::testkit {

class store_layer : public ports::delivery_store {
public:
    explicit store_layer(ports::delivery_store& below) : below_(below) {}

    ports::async_result<ports::claim_reply> claim(ports::claim_request request) override { return below_.claim(std::move(request)); }
    ports::async_result<int> bump_epoch(std::int64_t relay) override { return below_.bump_epoch(relay); }
    ports::async_result<std::int64_t> release_unknown(std::int64_t relay, std::vector<std::int64_t> held) override { return below_.release_unknown(relay, std::move(held)); }
    ports::async_result<std::vector<std::int64_t>> settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) override { return below_.settle(relay, batch); }
    ports::async_result<ports::registration> register_relay(ports::relay_identity who, base::milliseconds lease) override { return below_.register_relay(std::move(who), lease); }
    ports::async_result<ports::beat_reply> beat(ports::beat_request request) override { return below_.beat(std::move(request)); }
    ports::async_result<void> set_wake(std::int64_t relay, bool wake) override { return below_.set_wake(relay, wake); }
    ports::async_result<std::int64_t> retire_relay(std::int64_t relay) override { return below_.retire_relay(relay); }
    ports::async_result<std::string> endpoint_digest() override { return below_.endpoint_digest(); }
    ports::async_result<ports::shared_state> load_endpoints() override { return below_.load_endpoints(); }
    ports::async_result<void> disable_endpoint(std::string name, std::string reason) override { return below_.disable_endpoint(std::move(name), std::move(reason)); }
    ports::async_result<std::vector<ports::disabled_endpoint>> note_endpoints(std::vector<ports::endpoint_note> notes) override { return below_.note_endpoints(std::move(notes)); }
    ports::async_result<std::vector<ports::circuit_row>> load_circuits() override { return below_.load_circuits(); }
    ports::async_result<ports::circuit_row> circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) override {
        return below_.circuit_trip(std::move(lane), settings, std::move(error));
    }
    ports::async_result<bool> circuit_probe(std::string lane, std::int64_t relay, int max_probes, base::milliseconds hold) override {
        return below_.circuit_probe(std::move(lane), relay, max_probes, hold);
    }
    ports::async_result<lifecycle::circuit_state> circuit_result(std::string lane, std::int64_t relay, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) override {
        return below_.circuit_result(std::move(lane), relay, ok, settings, std::move(error));
    }
    ports::async_result<std::vector<ports::rescued_row>> rescue(std::int64_t relay, int max_rescues, int limit) override { return below_.rescue(relay, max_rescues, limit); }
    ports::async_result<std::int64_t> route(int limit, base::milliseconds grace) override { return below_.route(limit, grace); }
    ports::async_result<std::int64_t> sweep(int batch) override { return below_.sweep(batch); }
    ports::async_result<std::int64_t> purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts, int batch) override {
        return below_.purge(published, failed, attempts, batch);
    }
    ports::async_result<counts> count() override { return below_.count(); }
    ports::async_result<std::optional<dead_rows>> find_dead_rows() override { return below_.find_dead_rows(); }
    ports::async_result<void> check_ready() override { return below_.check_ready(); }
    void abort() override { below_.abort(); }
    void close() override { below_.close(); }

protected:
    ports::delivery_store& below_;
};

}  // namespace outboxd::testkit
