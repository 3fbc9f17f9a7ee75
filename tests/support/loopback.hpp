// Role: sockets on the loopback addresses, and ports that behave badly on purpose.
// Promise: binds to 127.0.0.1 or ::1 and nowhere else.
#pragma once

#include <vector>

namespace outboxd::testkit {

/// A socket (not blocking, not listening yet) bound to a loopback address; port 0 takes a free one. Throws.
int bind_loopback(bool ipv6, int port, int& bound_port);

/// A port where connections are neither accepted nor refused: its backlog is full for as long as this lives.
class black_hole {
 public:
  explicit black_hole(bool ipv6 = false);
  ~black_hole();
  black_hole(const black_hole&) = delete;
  black_hole& operator=(const black_hole&) = delete;
  int port() const { return port_; }

 private:
  int listener_ = -1;
  std::vector<int> fillers_;
  int port_ = 0;
};

/// A port on 127.0.0.1 where nobody listens: connections are refused.
int refused_port();

}  // namespace outboxd::testkit
