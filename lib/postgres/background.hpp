// The few calls that can only block (getaddrinfo, PQcancel), each on a thread of its own and at most eight at a time. Floor 4 (postgres): the loop never waits for them, and neither does the end of the process.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"

namespace outboxd::postgres {

// Runs `call` on a thread; false when eight are busy already (then it is not run). `call` must own all that it touches.
bool run_in_background(std::function<void()> call);

// The addresses of a host name in the resolver's order, as numbers, at most eight. Cancelling `timer`, on which the wait rests, ends it early. Errors: database_unreachable (no such name), timeout, cancelled,
// database_busy (look-ups hang already).
[[nodiscard]] boost::asio::awaitable<base::result<std::vector<std::string>>> look_up(std::string host, base::milliseconds deadline, boost::asio::steady_timer& timer);

}  // namespace outboxd::postgres
