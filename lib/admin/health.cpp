#include "admin/health.hpp"

#include "admin/json_writer.hpp"

namespace outboxd::admin {

bool is_ready(const relay_state& s) noexcept {
    return s.database_up && s.schema_ok && s.claims_running && !s.stopping;
}

answer healthz() {
    return text_answer(200, "ok\n");
}

answer readyz(const relay_state& s) {
    std::string reason = s.reason;
    if (reason.empty() && !is_ready(s)) {
        reason = s.stopping       ? "stopping"
                 : !s.database_up ? "the database does not answer"
                 : !s.schema_ok   ? "the schema is missing or of another version"
                                  : "claims do not run";
    }
    json_writer w;
    w.begin_object().member("ready", is_ready(s)).text_or_null("reason", is_ready(s) ? std::string_view{} : std::string_view{reason});
    w.member("database_up", s.database_up).member("schema_ok", s.schema_ok).member("claims_running", s.claims_running).member("stopping", s.stopping);
    if (s.last_claim_age_seconds >= 0) w.member("last_claim_age_seconds", s.last_claim_age_seconds);
    w.end_object();
    auto a = json_answer(w.take());
    a.status = is_ready(s) ? 200 : 503;
    return a;
}

}  // namespace outboxd::admin
