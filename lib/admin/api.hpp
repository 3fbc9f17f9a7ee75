// /api/v1: what the commands show, read-only, as JSON. Floor 4 (admin): routing, parameters and rights; the store does the rest.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "admin/answer.hpp"
#include "base/secret.hpp"
#include "ports/operator_store.hpp"

namespace outboxd::admin {

struct api_rights {
    base::secret token;
    bool loopback{true};  // the listener's own address
};

// Nothing when the caller may ask; else 401 or 403. Without a token only a loopback listener answers, and only to a Host that names it: a page elsewhere
// whose name was bent to 127.0.0.1 must not read it through a browser.
[[nodiscard]] std::optional<answer> refuse(const api_rights& rights, const question& q);

// Paths: /api/v1/{status,events,events/ID,deliveries,endpoints,circuits,relays,why/ID}. Lists take limit (at most 1000) and the filters of the commands.
[[nodiscard]] boost::asio::awaitable<answer> answer_api(ports::operator_store& store, question q, std::string default_rate_limit);

}  // namespace outboxd::admin
