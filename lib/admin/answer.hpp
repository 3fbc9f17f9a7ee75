// A request and its answer without the library that carries them. Floor 4 (admin), pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace outboxd::admin {

struct question {
    std::string path;  // percent-decoded, without the query
    std::map<std::string, std::string> query;
    std::string authorization;
    std::string host;
};

struct answer {
    int status{200};
    std::string content_type{"application/json"};
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
};

[[nodiscard]] answer json_answer(std::string body);
[[nodiscard]] answer text_answer(int status, std::string text);
// {"error": "..."}
[[nodiscard]] answer error_answer(int status, std::string_view text);
[[nodiscard]] answer error_answer(const base::error& e);
// Path and query of a request target. Error: a broken percent escape, a NUL, a query name twice.
[[nodiscard]] base::result<question> parse_target(std::string_view target);

}  // namespace outboxd::admin
