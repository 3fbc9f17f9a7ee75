// What an SQLSTATE means to us. Floor 4 (postgres), pure: five characters in, a decision out; never the server's words, which change with its language.
#pragma once

#include <string_view>

#include "base/error.hpp"

namespace outboxd::postgres {

// PostgreSQL manual, appendix A; OB001 is our own: the relay has no lease any more.
[[nodiscard]] base::errc classify(std::string_view sqlstate) noexcept;
// The session is of no use after it even when the socket still stands: a read-only server, a shutdown, a dropped database. A new connect may reach the new primary.
[[nodiscard]] bool ends_session(std::string_view sqlstate) noexcept;
// Words of our own for states met while connecting; empty for others.
[[nodiscard]] std::string_view explain(std::string_view sqlstate) noexcept;
// The first five-character code behind a severity in libpq's verbose text of a failed connect (`FATAL:  28P01: ...`); empty when there is none: libpq has no other way to tell it.
[[nodiscard]] std::string_view find_sqlstate(std::string_view verbose_text) noexcept;

}  // namespace outboxd::postgres
