// What `drain` leaves behind, counted when it ends. Floor 4 (postgres).
#pragma once

#include <cstdint>
#include <string>

#include "postgres/connection.hpp"

namespace outboxd::postgres {

struct drain_remainder {
    std::int64_t remaining{0};  // not final: due, claimed, waiting for a retry, or unrouted
    std::int64_t scheduled{0};  // never tried, and their deliver_at is ahead
};

// On a connection of its own. Errors: those of connection::open() and query().
[[nodiscard]] asio::awaitable<base::result<drain_remainder>> count_drain_remainder(asio::any_io_executor executor, connect_options options, std::string schema);

}  // namespace outboxd::postgres
