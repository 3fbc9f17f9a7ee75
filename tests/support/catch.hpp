// Role: the one place that names the test framework's header, so that Catch2 v2 (Debian 12) and v3 both do.
// Promise: includes nothing else and defines only what the two versions spell differently.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define OUTBOXD_CATCH_MAJOR 3
#else
#include <catch2/catch.hpp>
#define OUTBOXD_CATCH_MAJOR 2
#endif

#if OUTBOXD_CATCH_MAJOR == 3
// v3 moved these out of the global view; tests are written in the words of v2.
using Catch::Approx;
namespace Catch {
namespace Matchers {
using Catch::Matchers::ContainsSubstring;
inline auto Contains(const std::string& text) { return ContainsSubstring(text); }
}  // namespace Matchers
}  // namespace Catch
#endif
