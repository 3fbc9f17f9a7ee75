#include "commands/attempts.hpp"

#include <algorithm>
#include <iostream>

#include "commands/output.hpp"
#include "config/near_match.hpp"

namespace outboxd::daemon {
namespace {

const std::vector<std::string>& words() {
    static const std::vector<std::string> list{"pending", "retrying", "published", "failed", "expired", "cancelled", "unrouted"};
    return list;
}

}  // namespace

void print_attempts(const std::vector<ports::attempt_view>& attempts) {
    if (attempts.empty()) return;
    std::cout << '\n';
    table t({"ATTEMPT", "DELIVERY", "ENDPOINT", "STARTED", "OUTCOME", "STATUS", "MS", "ERROR", "NEXT"});
    for (const auto& a : attempts) {
        const std::string error = a.error_class.empty() ? a.error : a.error_class + ": " + a.error;
        t.row({std::to_string(a.attempt), std::to_string(a.delivery), a.endpoint.value_or(""), moment(a.started_at), a.outcome,
               a.http_status > 0 ? std::to_string(a.http_status) : "", std::to_string(a.duration_ms), error,
               a.next_attempt_at ? moment(a.next_attempt_at) : ""});
    }
    t.print();
}

std::optional<std::string> status_word(const arguments& args) {
    auto word = args.get("--status");
    if (word && std::find(words().begin(), words().end(), *word) == words().end()) {
        throw usage_error("--status wants " + joined(words(), ", ") + ", not '" + base_printable(*word) + "'" +
                          config::suggestion(config::near_match(*word, words())));
    }
    return word;
}

std::string status_words() {
    return joined(words(), ", ");
}

}  // namespace outboxd::daemon
