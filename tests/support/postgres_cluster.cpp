#include "support/postgres_cluster.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace outboxd::testkit {
namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

/// PostgreSQL refuses to run as root, so root hands its servers to this account; anybody else runs them as himself.
struct account {
  bool change = false;
  uid_t user = 0;
  gid_t group = 0;
  std::string name;
};

account server_account() {
  if (geteuid() != 0) return {};
  const passwd* entry = getpwnam("postgres");
  if (entry == nullptr) throw std::runtime_error("no account `postgres`: is PostgreSQL installed?");
  return {true, entry->pw_uid, entry->pw_gid, "postgres"};
}

/// The newest server programs on this machine: Debian keeps them outside the PATH.
fs::path program(std::string_view name) {
  for (const char* version : {"15", "16", "17"}) {
    const fs::path candidate = fs::path("/usr/lib/postgresql") / version / "bin" / name;
    if (fs::exists(candidate)) return candidate;
  }
  return fs::path(name);
}

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string tail(const std::string& text, std::size_t limit = 3000) {
  return text.size() <= limit ? text : text.substr(text.size() - limit);
}

/// Starts a program under the server's account with its output in `log`. The child is told to end when this thread does.
pid_t spawn(const std::vector<std::string>& arguments, const fs::path& log, int death_signal) {
  const account who = server_account();
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid > 0) return pid;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(in, 0);
  dup2(out, 1);
  dup2(out, 2);
  setpgid(0, 0);  // a Ctrl-C on the terminal is for the test, which then stops the server in its own way
  if (who.change && (initgroups(who.name.c_str(), who.group) != 0 || setgid(who.group) != 0 || setuid(who.user) != 0)) {
    _exit(126);
  }
  // After setuid, which would clear it again.
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(125);
  // No sanitizer's or library's preload, and messages in English whatever the machine speaks.
  unsetenv("LD_PRELOAD");
  setenv("LC_ALL", "C", 1);
  unsetenv("LANGUAGE");
  if (chdir("/") != 0) _exit(124);
  execvp(argv[0], argv.data());
  _exit(127);
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port on 127.0.0.1");
  }
  close(fd);
  return ntohs(address.sin_port);
}

/// A directory that the server's account owns. Below /tmp, whatever TMPDIR says: the path of a Unix socket may have 107
/// bytes only, and the account must be able to walk the whole path. tests/run.sh names a directory of its own there, so
/// that nothing is left behind by a test that was killed.
fs::path server_directory() {
  const char* base = std::getenv("OUTBOXD_TEST_TMP");
  std::string name = std::string(base != nullptr ? base : "/tmp") + "/outboxd-pg-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(std::string("mkdtemp: ") + std::strerror(errno));
  const account who = server_account();
  if (who.change && chown(name.c_str(), who.user, who.group) != 0) throw std::runtime_error("chown " + name);
  return name;
}

void run_to_end(const std::vector<std::string>& arguments, const fs::path& log) {
  const int status = wait_for_exit(spawn(arguments, log, SIGKILL));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(arguments.front() + " failed: " + tail(file_text(log)));
  }
}

/// A data directory as initdb leaves it, made once per process; clusters are copies of it.
class initial_data {
 public:
  initial_data() : directory_(server_directory()) {
    run_to_end({program("initdb").string(), "-D", path().string(), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                "--locale=C.UTF-8", "--no-sync"},
               directory_ / "initdb.log");
  }
  ~initial_data() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  fs::path path() const { return directory_ / "data"; }

 private:
  fs::path directory_;
};

void write_for_server(const fs::path& path, std::string_view text, mode_t mode, bool append = false) {
  std::ofstream out(path, std::ios::binary | (append ? std::ios::app : std::ios::trunc));
  out << text;
  out.close();
  const account who = server_account();
  if (!out || chmod(path.c_str(), mode) != 0 || (who.change && chown(path.c_str(), who.user, who.group) != 0)) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

std::vector<text_row> run(PGconn* connection, const std::string& sql) {
  PGresult* result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    std::string text = std::string(state != nullptr ? state : "08006") + ": " + PQerrorMessage(connection) + " in: " + sql;
    PQclear(result);
    throw std::runtime_error(text);
  }
  std::vector<text_row> rows;
  for (int row = 0; row < PQntuples(result); ++row) {
    text_row& values = rows.emplace_back();
    for (int column = 0; column < PQnfields(result); ++column) {
      if (PQgetisnull(result, row, column) != 0) {
        values.emplace_back();
      } else {
        values.emplace_back(std::string(PQgetvalue(result, row, column),
                                        static_cast<std::size_t>(PQgetlength(result, row, column))));
      }
    }
  }
  PQclear(result);
  return rows;
}

PGconn* open_session(const std::string& uri) {
  PGconn* connection = PQconnectdb(uri.c_str());
  if (PQstatus(connection) != CONNECTION_OK) {
    const std::string text = PQerrorMessage(connection);
    PQfinish(connection);
    throw std::runtime_error("cannot connect: " + text);
  }
  PQsetNoticeProcessor(connection, [](void*, const char*) {}, nullptr);
  return connection;
}

}  // namespace

postgres_cluster::postgres_cluster(cluster_options options)
    : options_(std::move(options)), directory_(server_directory()), data_(directory_ / "data") {
  try {
    make_data_directory();
    // Another process may take the port between our look and the server's bind.
    for (int attempt = 1;; ++attempt) {
      port_ = free_port();
      launch();
      if (wait_until_ready(std::chrono::seconds{60})) return;
      if (attempt == 5) throw std::runtime_error("PostgreSQL does not start: " + tail(log()));
    }
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
    throw;
  }
}

postgres_cluster::~postgres_cluster() {
  if (pid_ > 0) {
    thaw();
    kill(pid_, SIGQUIT);
    wait_for_exit(pid_);
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

postgres_cluster& postgres_cluster::shared() {
  static postgres_cluster cluster{};
  return cluster;
}

void postgres_cluster::make_data_directory() {
  static const initial_data initial;
  run_to_end({"cp", "-a", initial.path().string(), data_.string()}, directory_ / "copy.log");
  // Statements of tests are short; a server of the default size would only cost memory. fsync stays on, as a user has it.
  std::string settings =
      "listen_addresses = '127.0.0.1'\nmax_connections = 100\nshared_buffers = 64MB\nlog_line_prefix = '%m [%p] '\n"
      "max_prepared_transactions = 20\ntimezone = 'UTC'\nlog_timezone = 'UTC'\nmax_wal_size = 512MB\n";
  settings += "unix_socket_directories = '" + directory_.string() + "'\n";
  if (!options_.certificate_pem.empty() && !options_.key_pem.empty()) {
    write_for_server(data_ / "server.crt", options_.certificate_pem, 0600);
    write_for_server(data_ / "server.key", options_.key_pem, 0600);
    settings += "ssl = on\n";
  }
  for (const std::string& line : options_.settings) settings += line + "\n";
  write_for_server(data_ / "postgresql.conf", settings, 0600, true);
  std::string hba;
  for (const std::string& line : options_.hba_first) hba += line + "\n";
  hba += "local all all trust\nhost all all 127.0.0.1/32 trust\nlocal replication all trust\n"
         "host replication all 127.0.0.1/32 trust\n";
  write_for_server(data_ / "pg_hba.conf", hba, 0600);
}

void postgres_cluster::launch() {
  pid_ = spawn({program("postgres").string(), "-D", data_.string(), "-p", std::to_string(port_)},
               directory_ / "server.log", SIGQUIT);
}

bool postgres_cluster::wait_until_ready(std::chrono::seconds limit) {
  const auto end = clock::now() + limit;
  const std::string where = socket_uri("postgres") + "&connect_timeout=2";
  while (clock::now() < end) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    if (PQping(where.c_str()) == PQPING_OK) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  throw std::runtime_error("PostgreSQL does not answer: " + tail(log()));
}

void postgres_cluster::start() {
  if (pid_ > 0) return;
  launch();
  if (!wait_until_ready(std::chrono::seconds{60})) throw std::runtime_error("PostgreSQL does not start: " + tail(log()));
}

void postgres_cluster::stop(stop_mode mode) {
  if (pid_ <= 0) return;
  kill(pid_, mode == stop_mode::fast ? SIGINT : SIGQUIT);
  wait_for_exit(pid_);
  pid_ = -1;
}

void postgres_cluster::restart(stop_mode mode) {
  stop(mode);
  start();
}

void postgres_cluster::signal_all(int signal) const {
  if (pid_ <= 0) return;
  // The parent first, so that it starts no new child meanwhile.
  kill(pid_, signal);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    const std::string stat = file_text(entry.path() / "stat");
    const std::size_t after = stat.rfind(')');
    if (after == std::string::npos) continue;
    char state = 0;
    long parent = 0;
    std::istringstream(stat.substr(after + 1)) >> state >> parent;
    if (parent == pid_) kill(static_cast<pid_t>(std::stol(name)), signal);
  }
}

void postgres_cluster::freeze() { signal_all(SIGSTOP); }
void postgres_cluster::thaw() { signal_all(SIGCONT); }

void postgres_cluster::set(std::string_view name, std::string_view value) {
  query(socket_uri("postgres"), "ALTER SYSTEM SET " + std::string(name) + " = " + std::string(value));
  query(socket_uri("postgres"), "SELECT pg_reload_conf()");
}

std::string postgres_cluster::log() const { return file_text(directory_ / "server.log"); }

std::string postgres_cluster::uri(std::string_view database, std::string_view role) const {
  return "postgresql://" + std::string(role) + "@127.0.0.1:" + std::to_string(port_) + "/" + std::string(database);
}

std::string postgres_cluster::socket_uri(std::string_view database, std::string_view role) const {
  return "postgresql:///" + std::string(database) + "?host=" + directory_.string() + "&port=" + std::to_string(port_) +
         "&user=" + std::string(role);
}

std::string postgres_cluster::create_database(std::string_view from) {
  static int counter = 0;
  const std::string name = "test_" + std::to_string(getpid()) + "_" + std::to_string(++counter);
  query(socket_uri("postgres"), "CREATE DATABASE " + name + " TEMPLATE \"" + std::string(from) + "\"");
  return uri(name);
}

std::vector<text_row> query(const std::string& uri, const std::string& sql) {
  held_session session(uri);
  return session.query(sql);
}

std::string query_value(const std::string& uri, const std::string& sql) {
  const std::vector<text_row> rows = query(uri, sql);
  if (rows.empty() || rows.front().empty() || !rows.front().front()) throw std::runtime_error("no value from: " + sql);
  return *rows.front().front();
}

bool wait_for_value(const std::string& uri, const std::string& sql, std::string_view expected,
                    std::chrono::milliseconds limit) {
  held_session session(uri);
  const auto end = clock::now() + limit;
  for (;;) {
    const std::vector<text_row> rows = session.query(sql);
    if (!rows.empty() && !rows.front().empty() && rows.front().front() == expected) return true;
    if (clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

held_session::held_session(const std::string& uri) : connection_(open_session(uri)) {}
held_session::~held_session() { PQfinish(static_cast<PGconn*>(connection_)); }
std::vector<text_row> held_session::query(const std::string& sql) { return run(static_cast<PGconn*>(connection_), sql); }

}  // namespace outboxd::testkit
