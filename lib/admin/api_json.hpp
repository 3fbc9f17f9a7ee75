// The operator's values as JSON: what --json prints and /api/v1 answers, so that both say the same. Floor 4 (admin), pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ports/operator_store.hpp"

namespace outboxd::admin {

[[nodiscard]] std::string to_json(const ports::status_report& report);
[[nodiscard]] std::string to_json(const std::vector<ports::relay_view>& list);
[[nodiscard]] std::string to_json(const std::vector<ports::circuit_view>& list);
[[nodiscard]] std::string to_json(const std::vector<ports::event_view>& list);
[[nodiscard]] std::string to_json(const std::vector<ports::delivery_view>& list);
[[nodiscard]] std::string to_json(const std::vector<ports::endpoint_view>& list);
[[nodiscard]] std::string to_json(const ports::endpoint_view& endpoint);
// An array, one explanation per delivery.
[[nodiscard]] std::string to_json(const std::vector<ports::delivery_facts>& facts, std::string_view default_rate_limit);
// An event with its deliveries and attempts.
[[nodiscard]] std::string to_json(const ports::event_view& event, const std::vector<ports::delivery_facts>& deliveries,
                                  const std::vector<ports::attempt_view>& attempts, std::string_view default_rate_limit);
// One delivery (a row of the event's facts) with its attempts.
[[nodiscard]] std::string to_json(const ports::delivery_facts& delivery, const std::vector<ports::attempt_view>& attempts, std::string_view default_rate_limit);

}  // namespace outboxd::admin
