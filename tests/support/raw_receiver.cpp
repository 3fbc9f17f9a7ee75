#include "support/raw_receiver.hpp"

#include "support/receiver_tls.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace outboxd::testkit {
namespace {

using clock = std::chrono::steady_clock;

struct ssl_deleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using ssl_session = std::unique_ptr<SSL, ssl_deleter>;

}  // namespace

struct raw_receiver::state {
  script run;
  raw_receiver_options options;
  int listener = -1;
  int port = 0;
  int stop_event = -1;
  int gate_event = -1;
  std::atomic<bool> stopping{false};
  ssl_context context;
  std::vector<std::pair<std::string, ssl_context>> named_contexts;

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<received_request> requests;
  std::vector<std::string> handshake_errors;
  int accepted = 0;
  int open = 0;
  std::thread acceptor;
  std::vector<std::thread> workers;

  ~state() {
    for (const int fd : {listener, stop_event, gate_event}) {
      if (fd >= 0) close(fd);
    }
  }

  template <typename Change>
  void update(Change change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }

  /// Waits for a socket; false when the receiver stops or the time is up.
  bool wait_socket(int fd, short events, std::chrono::milliseconds limit) const {
    pollfd polled[2] = {{fd, events, 0}, {stop_event, POLLIN, 0}};
    const int ready = poll(polled, 2, static_cast<int>(limit.count()));
    return ready > 0 && polled[1].revents == 0;
  }
};

namespace {

constexpr std::chrono::milliseconds forever{-1};

int choose_context(SSL* ssl, int*, void* argument) {
  const auto* state = static_cast<const raw_receiver::state*>(argument);
  const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  for (const auto& [key, context] : state->named_contexts) {
    if (name != nullptr && key == name) SSL_set_SSL_CTX(ssl, context.get());
  }
  return SSL_TLSEXT_ERR_OK;
}

class socket_connection final : public raw_connection {
 public:
  socket_connection(raw_receiver::state& state, int fd, int number) : state_(state), fd_(fd), number_(number) {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~socket_connection() override { close_abruptly(); }

  bool handshake() {
    ssl_.reset(SSL_new(state_.context.get()));
    SSL_set_fd(ssl_.get(), fd_);
    for (;;) {
      ERR_clear_error();
      const int result = SSL_accept(ssl_.get());
      if (result == 1) return true;
      if (!wait_for_tls(result)) break;
    }
    const std::string reason = openssl_error();
    state_.update([&] { state_.handshake_errors.push_back(reason); });
    ssl_broken_ = true;
    return false;
  }

  int number() const override { return number_; }

  std::string read_some(std::size_t limit) override {
    if (!buffer_.empty()) {
      std::string out = buffer_.substr(0, limit);
      buffer_.erase(0, out.size());
      return out;
    }
    return receive(limit);
  }

  std::optional<received_request> read_head() override {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      const std::string more = receive(65536);
      if (more.empty()) return std::nullopt;
      buffer_ += more;
    }
    received_request request;
    request.connection = number_;
    request.arrived = clock::now();
    request.head = buffer_.substr(0, end + 4);
    buffer_.erase(0, end + 4);
    return request;
  }

  std::optional<received_request> read_request() override {
    std::optional<received_request> request = read_head();
    if (!request) return std::nullopt;
    const std::size_t length = std::stoul(request->header("content-length").value_or("0"));
    while (buffer_.size() < length) {
      const std::string more = receive(65536);
      if (more.empty()) return std::nullopt;
      buffer_ += more;
    }
    request->body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    state_.update([&] { state_.requests.push_back(*request); });
    return request;
  }

  bool write(std::string_view bytes) override {
    while (!bytes.empty() && fd_ >= 0) {
      ssize_t sent = 0;
      if (ssl_) {
        ERR_clear_error();
        const int result = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
        if (result <= 0 && !wait_for_tls(result)) return false;
        sent = result > 0 ? result : 0;
      } else {
        sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && (errno != EAGAIN || !state_.wait_socket(fd_, POLLOUT, forever))) return false;
        sent = sent > 0 ? sent : 0;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return fd_ >= 0;
  }

  bool drip(std::string_view bytes, std::chrono::milliseconds each) override {
    for (const char& byte : bytes) {
      if (!write(std::string_view(&byte, 1)) || !wait(each)) return false;
    }
    return true;
  }

  bool answer(int status, std::string_view body, std::string_view extra) override {
    std::string text = "HTTP/1.1 " + std::to_string(status) + " Scripted\r\nContent-Length: ";
    text += std::to_string(body.size()) + "\r\n";
    text += extra;
    text += "\r\n";
    text += body;
    return write(text);
  }

  bool wait(std::chrono::milliseconds duration) override {
    pollfd polled{state_.stop_event, POLLIN, 0};
    return poll(&polled, 1, static_cast<int>(duration.count())) == 0;
  }

  bool wait_for_peer_close(std::chrono::milliseconds limit) override {
    const auto end = clock::now() + limit;
    char discarded[4096];
    while (fd_ >= 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
      if (left.count() <= 0 || !state_.wait_socket(fd_, POLLIN, left)) return false;
      const ssize_t count = recv(fd_, discarded, sizeof discarded, 0);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    }
    return true;
  }

  bool wait_for_gate() override {
    pollfd polled[2] = {{state_.gate_event, POLLIN, 0}, {state_.stop_event, POLLIN, 0}};
    return poll(polled, 2, -1) > 0 && polled[1].revents == 0;
  }

  void close() override {
    if (fd_ >= 0 && ssl_ && !ssl_broken_) SSL_shutdown(ssl_.get());
    close_abruptly();
  }

  void close_abruptly() override {
    if (fd_ < 0) return;
    ::close(fd_);
    fd_ = -1;
  }

  void reset() override {
    if (fd_ < 0) return;
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close_abruptly();
  }

  void shutdown_write() override {
    if (fd_ >= 0) ::shutdown(fd_, SHUT_WR);
  }

  std::string server_name() const override {
    const char* name = ssl_ ? SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name) : nullptr;
    return name != nullptr ? name : "";
  }
  bool session_resumed() const override { return ssl_ && SSL_session_reused(ssl_.get()) == 1; }
  std::string tls_version() const override { return ssl_ ? SSL_get_version(ssl_.get()) : ""; }

 private:
  std::string receive(std::size_t limit) {
    std::string out(limit, '\0');
    while (fd_ >= 0) {
      if (ssl_) {
        ERR_clear_error();
        const int result = SSL_read(ssl_.get(), out.data(), static_cast<int>(limit));
        if (result > 0) {
          out.resize(static_cast<std::size_t>(result));
          return out;
        }
        if (!wait_for_tls(result)) break;
      } else {
        const ssize_t count = recv(fd_, out.data(), limit, 0);
        if (count > 0) {
          out.resize(static_cast<std::size_t>(count));
          return out;
        }
        if (count == 0 || errno != EAGAIN || !state_.wait_socket(fd_, POLLIN, forever)) break;
      }
    }
    return {};
  }

  /// What OpenSSL waits for; false when the session is over or the receiver stops.
  bool wait_for_tls(int result) {
    const int wanted = SSL_get_error(ssl_.get(), result);
    if (wanted == SSL_ERROR_WANT_READ) return state_.wait_socket(fd_, POLLIN, forever);
    if (wanted == SSL_ERROR_WANT_WRITE) return state_.wait_socket(fd_, POLLOUT, forever);
    ssl_broken_ = wanted == SSL_ERROR_SSL || wanted == SSL_ERROR_SYSCALL;
    return false;
  }

  raw_receiver::state& state_;
  int fd_;
  int number_;
  ssl_session ssl_;
  bool ssl_broken_ = false;
  std::string buffer_;
};

void serve(const std::shared_ptr<raw_receiver::state>& state, int fd, int number) {
  {
    socket_connection connection(*state, fd, number);
    const bool speak_tls = state->context && state->options.handshake;
    if (!speak_tls || connection.handshake()) state->run(connection);
  }
  state->update([&] { --state->open; });
}

void accept_connections(const std::shared_ptr<raw_receiver::state>& state) {
  while (state->wait_socket(state->listener, POLLIN, forever)) {
    const int fd = accept4(state->listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    state->update([&] {
      const int number = state->accepted++;
      ++state->open;
      state->workers.emplace_back([state, fd, number] { serve(state, fd, number); });
    });
  }
}

template <typename Condition>
bool wait_until(const raw_receiver::state& state, std::chrono::milliseconds limit, Condition condition) {
  std::unique_lock lock(state.mutex);
  return state.changed.wait_for(lock, limit, condition);
}

}  // namespace

raw_receiver::raw_receiver(script run, raw_receiver_options options) : state_(std::make_shared<state>()) {
  state_->run = std::move(run);
  state_->options = std::move(options);
  state_->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  state_->gate_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state_->options.tls) {
    state_->context = make_context(*state_->options.tls, state_->options);
    for (const auto& [name, identity] : state_->options.by_server_name) {
      state_->named_contexts.emplace_back(name, make_context(identity, state_->options));
    }
    SSL_CTX_set_tlsext_servername_callback(state_->context.get(), &choose_context);
    SSL_CTX_set_tlsext_servername_arg(state_->context.get(), state_.get());
  }
  state_->listener = bind_loopback(state_->options.ipv6, state_->options.port, state_->port);
  if (listen(state_->listener, 1024) != 0) throw std::runtime_error(std::string("listen: ") + std::strerror(errno));
  state_->acceptor = std::thread([state = state_] { accept_connections(state); });
}

raw_receiver::~raw_receiver() { stop(); }

void raw_receiver::stop() {
  if (state_->stopping.exchange(true)) return;
  eventfd_write(state_->stop_event, 1);
  state_->acceptor.join();
  // The acceptor has ended, so nothing is added any more.
  for (std::thread& worker : state_->workers) worker.join();
  close(state_->listener);
  state_->listener = -1;
}

int raw_receiver::port() const { return state_->port; }

std::string raw_receiver::url(std::string_view target) const {
  const std::string host = state_->options.ipv6 ? "[::1]" : state_->options.tls ? "localhost" : "127.0.0.1";
  return (state_->options.tls ? "https://" : "http://") + host + ":" + std::to_string(port()) + std::string(target);
}

std::vector<received_request> raw_receiver::requests() const {
  const std::lock_guard lock(state_->mutex);
  return state_->requests;
}

int raw_receiver::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->accepted;
}

int raw_receiver::open_connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open;
}

std::vector<std::string> raw_receiver::handshake_errors() const {
  const std::lock_guard lock(state_->mutex);
  return state_->handshake_errors;
}

bool raw_receiver::wait_for_requests(std::size_t count, std::chrono::milliseconds limit) const {
  return wait_until(*state_, limit, [&] { return state_->requests.size() >= count; });
}

bool raw_receiver::wait_for_connections(int count, std::chrono::milliseconds limit) const {
  return wait_until(*state_, limit, [&] { return state_->accepted >= count; });
}

bool raw_receiver::wait_for_idle(std::chrono::milliseconds limit) const {
  return wait_until(*state_, limit, [&] { return state_->open == 0; });
}

void raw_receiver::open_gate() { eventfd_write(state_->gate_event, 1); }

}  // namespace outboxd::testkit
