// Role: the words that reach the database, logs and metrics.
// Promise: pure.
#include "lifecycle/circuit.hpp"
#include "lifecycle/outcome.hpp"

#include "support/catch.hpp"

using namespace outboxd::lifecycle;

TEST_CASE("names: outcomes, error classes and circuit states are spelled as the contract does", "[outcome]") {
    const std::vector<std::pair<outcome, std::string>> outcomes{{outcome::published, "published"}, {outcome::retried, "retried"},     {outcome::failed, "failed"},
                                                                {outcome::expired, "expired"},     {outcome::cancelled, "cancelled"}, {outcome::lost, "lost"},
                                                                {outcome::released, "released"}};
    for (const auto& [value, name] : outcomes) CHECK(to_string(value) == name);
    const std::vector<std::pair<error_class, std::string>> classes{
        {error_class::none, ""},           {error_class::dns, "dns"},         {error_class::connect, "connect"}, {error_class::tls, "tls"},
        {error_class::timeout, "timeout"}, {error_class::redirect, "redirect"}, {error_class::http, "http"},     {error_class::blocked, "blocked"},
        {error_class::proxy, "proxy"},     {error_class::protocol, "protocol"}, {error_class::payload, "payload"}, {error_class::header, "header"},
        {error_class::url, "url"},         {error_class::tenant, "tenant"},   {error_class::local, "local"},     {error_class::signing, "signing"}};
    for (const auto& [value, name] : classes) CHECK(to_string(value) == name);
    CHECK(to_string(circuit_state::closed) == "closed");
    CHECK(to_string(circuit_state::half_open) == "half_open");
    CHECK(to_string(circuit_state::open) == "open");
}
