// Role: the layer between a relay and its fake_store that tells the watch what the relay asked and what it was told.
// Promise: passes every call and reply on unchanged.
#pragma once

#include "ports/time_source.hpp"
#include "support/relay_watch.hpp"
#include "support/store_layer.hpp"

namespace outboxd::testkit {

class watched_store final : public store_layer {
public:
    watched_store(ports::delivery_store& below, relay_watch& watch, int process, ports::time_source& time) : store_layer(below), watch_(watch), process_(process), time_(time) {}

    ports::async_result<ports::claim_reply> claim(ports::claim_request request) override;
    ports::async_result<int> bump_epoch(std::int64_t relay) override;
    ports::async_result<std::vector<std::int64_t>> settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) override;
    ports::async_result<ports::registration> register_relay(ports::relay_identity who, base::milliseconds lease) override;
    ports::async_result<ports::beat_reply> beat(ports::beat_request request) override;
    ports::async_result<ports::shared_state> load_endpoints() override;
    ports::async_result<std::vector<ports::circuit_row>> load_circuits() override;
    ports::async_result<ports::circuit_row> circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) override;
    ports::async_result<bool> circuit_probe(std::string lane, std::int64_t relay, int max_probes, base::milliseconds hold) override;
    ports::async_result<lifecycle::circuit_state> circuit_result(std::string lane, std::int64_t relay, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) override;

private:
    relay_watch& watch_;
    int process_;
    ports::time_source& time_;
};

}  // namespace outboxd::testkit
