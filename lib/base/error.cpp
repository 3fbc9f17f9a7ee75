#include "base/error.hpp"

namespace outboxd::base {

std::string_view to_string(errc code) noexcept {
    switch (code) {
        case errc::invalid_input: return "invalid_input";
        case errc::bad_config: return "bad_config";
        case errc::io: return "io";
        case errc::timeout: return "timeout";
        case errc::cancelled: return "cancelled";
        case errc::database_unreachable: return "database_unreachable";
        case errc::database_read_only: return "database_read_only";
        case errc::database_schema: return "database_schema";
        case errc::database_denied: return "database_denied";
        case errc::database_busy: return "database_busy";
        case errc::database_error: return "database_error";
        case errc::lease_lost: return "lease_lost";
        case errc::not_found: return "not_found";
        case errc::refused: return "refused";
        case errc::internal: return "internal";
    }
    return "internal";
}

void throw_exception_from_error(const error& e, const boost::source_location&) { throw failure(e); }

}  // namespace outboxd::base
