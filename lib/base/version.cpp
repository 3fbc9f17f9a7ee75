#include "base/version.hpp"

namespace outboxd::base {

std::string_view version() noexcept { return OUTBOXD_VERSION; }
std::string_view git_revision() noexcept { return OUTBOXD_GIT_REVISION; }

}  // namespace outboxd::base
