// The version of this build, set by CMake. Floor 0.
#pragma once

#include <string_view>

namespace outboxd::base {

[[nodiscard]] std::string_view version() noexcept;       // 0.1.0
[[nodiscard]] std::string_view git_revision() noexcept;  // short hash, `unknown` outside a checkout

}  // namespace outboxd::base
