// /healthz and /readyz. Floor 4 (admin), pure. Alive means that the loop turns, whatever the database does; ready means that claims can run.
#pragma once

#include <string>

#include "admin/answer.hpp"

namespace outboxd::admin {

// What the relay knows of itself at this moment.
struct relay_state {
    bool database_up{false};  // a session answers, and may write
    bool schema_ok{false};
    bool claims_running{false};  // the lease holds and the claims turn
    bool stopping{false};
    std::string reason;                 // why not ready, one sentence; empty: derived from the flags
    double last_claim_age_seconds{-1};  // since the last claim that the database answered; negative: none yet
};

[[nodiscard]] bool is_ready(const relay_state& s) noexcept;
[[nodiscard]] answer healthz();
// 200 or 503, with a JSON object that says why.
[[nodiscard]] answer readyz(const relay_state& s);

}  // namespace outboxd::admin
