// Role: a receiver that does exactly what a test's script says, byte for byte, over plain TCP or TLS.
// Promise: listens on 127.0.0.1 (or ::1) on a free port; one thread per connection; destruction ends every script and
// joins every thread, whatever they wait for. A script is a function of one connection; it runs once per connection.
#pragma once

#include "support/loopback.hpp"
#include "support/tls_material.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outboxd::testkit {

/// One request as it came over the wire.
struct received_request {
  int connection = 0;  ///< number of the connection, from 0 in order of acceptance
  std::string head;    ///< request line and header lines with the empty line
  std::string body;
  std::chrono::steady_clock::time_point arrived;

  std::string method() const;
  std::string target() const;
  /// Value of the first header line of that name (any case); nothing when there is none.
  std::optional<std::string> header(std::string_view name) const;
  /// Names and values in the order of the wire, names as they were written.
  std::vector<std::pair<std::string, std::string>> headers() const;
};

struct raw_receiver_options {
  bool ipv6 = false;
  int port = 0;                             ///< 0: a free one
  std::optional<certificate> tls;           ///< set: TLS with this certificate
  std::string client_ca_pem;                ///< set: a client certificate of this authority is demanded
  std::string max_tls_version;              ///< "1.1", "1.2": the most the receiver offers
  bool handshake = true;                    ///< false: a script that speaks TLS itself, or never answers the hello
  std::vector<std::pair<std::string, certificate>> by_server_name;  ///< SNI name -> certificate
};

/// A script's view of its connection. Every call returns early, with false or nothing, when the peer has gone or the
/// receiver stops; a script needs no other care.
class raw_connection {
 public:
  virtual ~raw_connection() = default;
  virtual int number() const = 0;
  /// The next whole request (head and Content-Length body). It is also kept in raw_receiver::requests().
  virtual std::optional<received_request> read_request() = 0;
  /// The next head alone; the body stays unread.
  virtual std::optional<received_request> read_head() = 0;
  /// Up to `limit` bytes, at least one; empty at the end of the stream.
  virtual std::string read_some(std::size_t limit = 65536) = 0;
  virtual bool write(std::string_view bytes) = 0;
  /// Writes one byte, waits, writes the next.
  virtual bool drip(std::string_view bytes, std::chrono::milliseconds each) = 0;
  /// A complete answer with Content-Length. `extra` are header lines, each with its CRLF.
  virtual bool answer(int status, std::string_view body = "", std::string_view extra = "") = 0;
  /// Holds still; false when the receiver stops meanwhile.
  virtual bool wait(std::chrono::milliseconds duration) = 0;
  /// Waits until the peer closes or resets, discarding what it sends; false after `limit`.
  virtual bool wait_for_peer_close(std::chrono::milliseconds limit) = 0;
  /// Waits for raw_receiver::open_gate(); false when the receiver stops first.
  virtual bool wait_for_gate() = 0;
  virtual void close() = 0;           ///< close_notify (TLS) and FIN
  virtual void close_abruptly() = 0;  ///< FIN without close_notify
  virtual void reset() = 0;           ///< RST
  virtual void shutdown_write() = 0;  ///< half close
  /// TLS only: what the client said in SNI, whether the session was resumed, the protocol ("TLSv1.3").
  virtual std::string server_name() const = 0;
  virtual bool session_resumed() const = 0;
  virtual std::string tls_version() const = 0;
};

class raw_receiver {
 public:
  using script = std::function<void(raw_connection&)>;
  explicit raw_receiver(script run, raw_receiver_options options = {});
  ~raw_receiver();
  raw_receiver(const raw_receiver&) = delete;
  raw_receiver& operator=(const raw_receiver&) = delete;

  int port() const;
  /// "https://localhost:PORT" + target, or http:// without TLS.
  std::string url(std::string_view target = "/") const;
  std::vector<received_request> requests() const;
  /// Connections accepted so far; connections open now; TLS handshakes that failed, with the reasons.
  int connections() const;
  int open_connections() const;
  std::vector<std::string> handshake_errors() const;
  bool wait_for_requests(std::size_t count, std::chrono::milliseconds limit = std::chrono::seconds{20}) const;
  bool wait_for_connections(int count, std::chrono::milliseconds limit = std::chrono::seconds{20}) const;
  /// True when no connection is open any more within `limit`.
  bool wait_for_idle(std::chrono::milliseconds limit = std::chrono::seconds{20}) const;
  /// Lets every script that is or will be in wait_for_gate() go on.
  void open_gate();
  /// Ends now: no more connections, scripts return, threads joined. The destructor does the same.
  void stop();

  struct state;

 private:
  std::shared_ptr<state> state_;
};

/// Scripts that many tests share.
raw_receiver::script answer_always(int status, std::string body = "");
/// Answers the statuses in turn over all connections; the last one for ever.
raw_receiver::script answer_in_turn(std::vector<int> statuses);
/// Reads requests and never answers.
raw_receiver::script hang_after_request();

}  // namespace outboxd::testkit
