// The way to a receiver without a request: policy, lookup, TCP, proxy and TLS exactly as a send takes them. Floor 4; for `check --connect`.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "base/time.hpp"
#include "https/beast_sender.hpp"
#include "ports/https_sender.hpp"

namespace outboxd::https {

// The reply is `complete` when the connection stood, handshake included; else error_class and error say what broke. Nothing was sent above TLS; the connection
// is closed at once.
[[nodiscard]] boost::asio::awaitable<ports::send_reply> probe(boost::asio::io_context& context, sender_options options,
                                                              std::shared_ptr<const ports::route> where, base::boot_time deadline);

}  // namespace outboxd::https
