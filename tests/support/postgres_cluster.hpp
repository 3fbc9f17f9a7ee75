// Role: a private PostgreSQL server for one test process: made, started, hurt and removed by it.
// Promise: a socket directory and a free port of its own on 127.0.0.1, never a server that was there before;
// the server dies with the test process, whatever way that ends. libpq stays in the .cpp file.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace outboxd::testkit {

/// How a server is told to stop: `fast` ends sessions and writes a checkpoint, `immediate` is a crash with recovery.
enum class stop_mode { fast, immediate };

/// One row of a result as text; SQL NULL is an empty optional.
using text_row = std::vector<std::optional<std::string>>;

struct cluster_options {
  /// Lines for postgresql.conf, later ones win: {"max_connections = 20"}.
  std::vector<std::string> settings;
  /// Lines that stand before the `trust` lines of pg_hba.conf: {"host all app 127.0.0.1/32 scram-sha-256"}.
  std::vector<std::string> hba_first;
  /// PEM texts; when both are set the server offers TLS on its TCP port.
  std::string certificate_pem;
  std::string key_pem;
};

/// RAII owner of one server. Constructing runs initdb (once per process, copied afterwards) and waits until sessions
/// are taken. Throws std::runtime_error with the end of the server's log when that fails. Start it in the main thread:
/// the kernel ends the server when the thread that started it ends.
class postgres_cluster {
 public:
  explicit postgres_cluster(cluster_options options = {});
  ~postgres_cluster();
  postgres_cluster(const postgres_cluster&) = delete;
  postgres_cluster& operator=(const postgres_cluster&) = delete;

  /// The server that all tests of this process share; made at the first call. Do not stop or freeze this one.
  static postgres_cluster& shared();

  /// A new database, a copy of `from` (nobody may be connected to it), and its libpq URI. About 30 ms.
  std::string create_database(std::string_view from = "template1");
  /// The URI of a database over TCP, as superuser `postgres` or as another role.
  std::string uri(std::string_view database, std::string_view role = "postgres") const;
  /// The same over the Unix socket.
  std::string socket_uri(std::string_view database, std::string_view role = "postgres") const;
  int port() const { return port_; }
  const std::filesystem::path& socket_directory() const { return directory_; }
  bool running() const { return pid_ > 0; }

  void stop(stop_mode mode = stop_mode::fast);
  /// Starts on the same port and data. Returns when sessions are taken.
  void start();
  void restart(stop_mode mode = stop_mode::fast);
  /// SIGSTOP to every process of the server: sockets stay open and nobody answers.
  void freeze();
  void thaw();
  /// ALTER SYSTEM SET name = value (value as SQL text, quotes included) and reload.
  void set(std::string_view name, std::string_view value);
  /// The server's log so far.
  std::string log() const;

 private:
  void make_data_directory();
  void launch();
  bool wait_until_ready(std::chrono::seconds limit);
  void signal_all(int signal) const;

  cluster_options options_;
  std::filesystem::path directory_;
  std::filesystem::path data_;
  int port_ = 0;
  pid_t pid_ = -1;
};

/// Runs SQL (several statements are allowed) on a short connection of its own and returns the last result's rows.
/// Throws std::runtime_error with SQLSTATE and text on any error.
std::vector<text_row> query(const std::string& uri, const std::string& sql);
/// First column of the first row as text; throws when there is none or it is NULL.
std::string query_value(const std::string& uri, const std::string& sql);
/// Asks `sql` until its first value is `expected`; false after `limit`. For tests that wait for an event in the database.
bool wait_for_value(const std::string& uri, const std::string& sql, std::string_view expected,
                    std::chrono::milliseconds limit = std::chrono::seconds{20});

/// A session that stays open, for transactions that a test holds open on purpose.
class held_session {
 public:
  explicit held_session(const std::string& uri);
  ~held_session();
  held_session(const held_session&) = delete;
  held_session& operator=(const held_session&) = delete;
  /// As `query`, on this session.
  std::vector<text_row> query(const std::string& sql);

 private:
  void* connection_;
};

}  // namespace outboxd::testkit
