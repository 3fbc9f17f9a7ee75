// What a received request says about itself, and the scripts that many tests share.
#include "support/raw_receiver.hpp"

#include <atomic>
#include <cctype>

namespace outboxd::testkit {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
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

}  // namespace outboxd::testkit
