// Role: the TLS side of the scripted receiver: its context, and OpenSSL's errors as text.
// Promise: only raw_receiver.cpp includes this; OpenSSL's types reach no test.
#pragma once

#include "support/raw_receiver.hpp"

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace outboxd::testkit {

struct ssl_context_deleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using ssl_context = std::unique_ptr<SSL_CTX, ssl_context_deleter>;

/// The errors on OpenSSL's queue, which is empty afterwards; "connection closed" when there are none.
std::string openssl_error();
/// A server's context with this identity, and with the protocol and client certificate that the options demand.
ssl_context make_context(const certificate& identity, const raw_receiver_options& options);

}  // namespace outboxd::testkit
