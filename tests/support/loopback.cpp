#include "support/loopback.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace outboxd::testkit {

int bind_loopback(bool ipv6, int port, int& bound_port) {
  const int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw std::runtime_error(std::string("socket: ") + std::strerror(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (ipv6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
    address->sin6_family = AF_INET6;
    address->sin6_addr = in6addr_loopback;
    address->sin6_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof *address;
  } else {
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address->sin_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof *address;
  }
  if (bind(fd, reinterpret_cast<sockaddr*>(&storage), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    close(fd);
    throw std::runtime_error(std::string("bind: ") + std::strerror(errno));
  }
  bound_port = ntohs(ipv6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                          : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  return fd;
}

black_hole::black_hole(bool ipv6) {
  listener_ = bind_loopback(ipv6, 0, port_);
  if (listen(listener_, 0) != 0) throw std::runtime_error(std::string("listen: ") + std::strerror(errno));
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  // A backlog of 0 still holds one connection; a few more leave no doubt that it is full.
  for (int i = 0; i < 3; ++i) {
    const int filler = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fillers_.push_back(filler);
    if (connect(filler, reinterpret_cast<sockaddr*>(&address), length) != 0) {
      pollfd polled{filler, POLLOUT, 0};
      poll(&polled, 1, 100);
    }
  }
}

black_hole::~black_hole() {
  for (const int filler : fillers_) close(filler);
  if (listener_ >= 0) close(listener_);
}

int refused_port() {
  int port = 0;
  close(bind_loopback(false, 0, port));
  return port;
}

}  // namespace outboxd::testkit
