// The story of one attempt: from a claimed row to the settlement that says what became of it. Floor 4.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "ports/https_sender.hpp"
#include "ports/time_source.hpp"
#include "relay/endpoint_directory.hpp"
#include "relay/lane.hpp"
#include "wire/response_policy.hpp"

namespace outboxd::relay {

// What the attempt means beyond its settlement.
struct attempt_result {
    lifecycle::settlement settlement;
    bool sent{false};              // a request was begun: it counts in metrics and in the log
    bool disable_endpoint{false};  // 410, or `webhook-delivery: disable`
    lifecycle::circuit_event for_circuit{lifecycle::circuit_event::neutral};
    bool trouble{false};           // timeout, 429, 503, connection fault: the lane's window shrinks
    bool reused{false};
};

struct attempt_context {
    endpoint_directory& endpoints;
    ports::https_sender& sender;
    ports::time_source& time;
    base::wall_time server_now;    // the server's clock, carried on by the local one
};

// The result of a delivery for which no request is made: it uses up no attempt.
[[nodiscard]] lifecycle::settlement without_request(std::int64_t delivery, lifecycle::outcome what, lifecycle::error_class why, std::string_view text);
[[nodiscard]] boost::asio::awaitable<attempt_result> attempt_delivery(const held& row, attempt_context context);

}  // namespace outboxd::relay
