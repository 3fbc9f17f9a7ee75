#include "support/raw_receiver.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
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

struct ssl_context_deleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct ssl_deleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using ssl_context = std::unique_ptr<SSL_CTX, ssl_context_deleter>;
using ssl_session = std::unique_ptr<SSL, ssl_deleter>;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string openssl_error() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    char buffer[256];
    ERR_error_string_n(code, buffer, sizeof buffer);
    text += (text.empty() ? "" : "; ") + std::string(buffer);
  }
  return text.empty() ? "connection closed" : text;
}

/// A socket bound to a loopback address; port 0 takes a free one.
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

ssl_context make_context(const certificate& identity, const raw_receiver_options& options) {
  ssl_context context(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_min_proto_version(context.get(), 0);
  SSL_CTX_set_security_level(context.get(), 0);  // so that an old protocol can be offered on purpose
  if (options.max_tls_version == "1.1") SSL_CTX_set_max_proto_version(context.get(), TLS1_1_VERSION);
  if (options.max_tls_version == "1.2") SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  BIO* bio = BIO_new_mem_buf(identity.certificate_pem.data(), static_cast<int>(identity.certificate_pem.size()));
  bool first = true;
  while (X509* x = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) {
    if (first) {
      SSL_CTX_use_certificate(context.get(), x);
      X509_free(x);
    } else {
      SSL_CTX_add_extra_chain_cert(context.get(), x);  // takes it over
    }
    first = false;
  }
  BIO_free(bio);
  bio = BIO_new_mem_buf(identity.key_pem.data(), static_cast<int>(identity.key_pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) throw std::runtime_error("receiver: " + openssl_error());
  EVP_PKEY_free(key);
  ERR_clear_error();
  if (!options.client_ca_pem.empty()) {
    bio = BIO_new_mem_buf(options.client_ca_pem.data(), static_cast<int>(options.client_ca_pem.size()));
    X509* authority = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority);
    X509_free(authority);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  const unsigned char id[] = "outboxd-test";
  SSL_CTX_set_session_id_context(context.get(), id, sizeof id - 1);
  return context;
}

}  // namespace

std::string received_request::method() const { return head.substr(0, head.find(' ')); }

std::string received_request::target() const {
  const std::size_t begin = head.find(' ');
  if (begin == std::string::npos) return {};
  return head.substr(begin + 1, head.find(' ', begin + 1) - begin - 1);
}

std::vector<std::pair<std::string, std::string>> received_request::headers() const {
  std::vector<std::pair<std::string, std::string>> out;
  std::size_t position = head.find("\r\n");
  while (position != std::string::npos) {
    position += 2;
    const std::size_t end = head.find("\r\n", position);
    if (end == std::string::npos || end == position) break;
    const std::string line = head.substr(position, end - position);
    const std::size_t colon = line.find(':');
    const std::size_t value = colon == std::string::npos ? std::string::npos : line.find_first_not_of(" \t", colon + 1);
    out.emplace_back(line.substr(0, colon), value == std::string::npos ? "" : line.substr(value));
    position = end;
  }
  return out;
}

std::optional<std::string> received_request::header(std::string_view name) const {
  for (const auto& [key, value] : headers()) {
    if (lower(key) == lower(name)) return value;
  }
  return std::nullopt;
}

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

raw_receiver::script answer_always(int status, std::string body) {
  return [status, body = std::move(body)](raw_connection& connection) {
    while (connection.read_request()) {
      if (!connection.answer(status, body)) return;
    }
  };
}

raw_receiver::script answer_in_turn(std::vector<int> statuses) {
  auto next = std::make_shared<std::atomic<std::size_t>>(0);
  return [statuses = std::move(statuses), next](raw_connection& connection) {
    while (connection.read_request()) {
      const std::size_t turn = next->fetch_add(1);
      if (!connection.answer(turn < statuses.size() ? statuses[turn] : statuses.back())) return;
    }
  };
}

raw_receiver::script hang_after_request() {
  return [](raw_connection& connection) {
    if (connection.read_request()) connection.wait_for_peer_close(std::chrono::hours{1});
  };
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
