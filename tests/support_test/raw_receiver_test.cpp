#include "support/catch.hpp"
#include "support/raw_receiver.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

using namespace outboxd::testkit;

namespace {

int connect_to(int port, int flags = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EINPROGRESS) return fd;
  close(fd);
  return -1;
}

std::string exchange(int port, const std::string& request) {
  const int fd = connect_to(port);
  REQUIRE(send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
  shutdown(fd, SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (ssize_t count = 0; (count = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  close(fd);
  return answer;
}

/// Runs the openssl program as an independent TLS client and returns what it prints.
std::string openssl_client(const std::string& arguments) {
  FILE* pipe = popen(("openssl s_client " + arguments + " </dev/null 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t count = 0; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("a receiver records head, order of headers and body, and answers what the script says") {
  raw_receiver receiver(answer_in_turn({500, 200}));
  const std::string request = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-Two: 2\r\nContent-Length: 5\r\n\r\nhello";
  const std::string answer = exchange(receiver.port(), request + request);
  CHECK(answer.find("HTTP/1.1 500") == 0);
  CHECK(answer.find("HTTP/1.1 200") != std::string::npos);
  REQUIRE(receiver.wait_for_requests(2));
  const received_request first = receiver.requests().front();
  CHECK(first.method() == "POST");
  CHECK(first.target() == "/a?b=c");
  CHECK(first.body == "hello");
  CHECK(first.header("x-two") == std::optional<std::string>("2"));
  CHECK(first.headers().at(2).first == "Content-Length");
}

TEST_CASE("a receiver that stops ends scripts that wait for ever") {
  raw_receiver receiver(hang_after_request());
  const int fd = connect_to(receiver.port());
  REQUIRE(send(fd, "POST / HTTP/1.1\r\n\r\n", 19, 0) == 19);
  REQUIRE(receiver.wait_for_requests(1));
  receiver.stop();
  CHECK(receiver.open_connections() == 0);
  close(fd);
}

TEST_CASE("a black hole neither accepts nor refuses, a refused port refuses") {
  const black_hole hole;
  const int fd = connect_to(hole.port(), SOCK_NONBLOCK);
  REQUIRE(fd >= 0);
  pollfd polled{fd, POLLOUT, 0};
  CHECK(poll(&polled, 1, 300) == 0);
  close(fd);
  CHECK(connect_to(refused_port()) == -1);
}

TEST_CASE("certificates of the test authority are right or wrong as their name says") {
  const certificate_authority root;
  const certificate_authority below = root.intermediate();
  const temporary_directory directory;
  const std::string ca = directory.write("ca.pem", root.certificate_pem()).string();
  struct row {
    const char* name;
    certificate identity;
    const char* verdict;
  };
  const std::vector<row> rows = {
      {"good", root.for_localhost(), "Verify return code: 0 (ok)"},
      {"through an intermediate", below.for_localhost(), "Verify return code: 0 (ok)"},
      {"expired", root.expired(), "certificate has expired"},
      {"not yet valid", root.not_yet_valid(), "certificate is not yet valid"},
      {"wrong name", root.wrong_name(), "hostname mismatch"},
      {"client only", root.client_only(), "unsuitable certificate purpose"},
      {"self signed", self_signed({}), "self-signed certificate"},
  };
  for (const row& one : rows) {
    INFO(one.name);
    raw_receiver_options options;
    options.tls = one.identity;
    raw_receiver receiver([](raw_connection& c) { c.wait_for_peer_close(std::chrono::seconds{5}); }, options);
    const std::string text = openssl_client("-connect 127.0.0.1:" + std::to_string(receiver.port()) + " -CAfile " + ca +
                                            " -servername localhost -verify_hostname localhost -purpose sslserver");
    CHECK_THAT(text, Catch::Matchers::Contains(one.verdict));
  }
}
