// The page at `/`: one static document that reads /api/v1/status. Floor 4 (admin).
#pragma once

#include "admin/answer.hpp"

namespace outboxd::admin {

// Nothing is loaded from elsewhere, and the Content-Security-Policy (CSP level 2, by hash) lets nothing else run.
[[nodiscard]] const answer& dashboard();

}  // namespace outboxd::admin
