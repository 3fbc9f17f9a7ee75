// Rules for header fields that others choose: the endpoint's and the event's own. Floor 1, pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace outboxd::wire {

using header_list = std::vector<std::pair<std::string, std::string>>;

// RFC 9110 5.1/5.5: name is a token of 1..128 bytes; value printable ASCII, SP, HTAB or bytes >= 0x80, no CR LF NUL, at most 8 KiB; white space around it is
// not sent. Names that outboxd sets itself (contract section 5, signatures, ce-*), framing and hop-by-hop fields (Host, Content-Length, Transfer-Encoding,
// Connection, TE, Trailer, Upgrade, Keep-Alive, Proxy-*, Expect ...) are refused. `Content-Type` is refused too (the event has a column).
[[nodiscard]] base::result<void> check_own_header(std::string_view name, std::string_view value);
// All of them: at most 64 headers and 16 KiB together, no name twice (case-insensitive).
[[nodiscard]] base::result<void> check_own_headers(const header_list& headers);
// The event's jsonb `headers`: an object of strings. Error: invalid_input naming the header.
[[nodiscard]] base::result<header_list> parse_event_headers(std::string_view json_object);
// A media type of at most 255 bytes (RFC 9110 8.3.1).
[[nodiscard]] base::result<void> check_content_type(std::string_view value);
// W3C Trace Context level 1, 3.2 and 3.3.
[[nodiscard]] base::result<void> check_traceparent(std::string_view value);
[[nodiscard]] base::result<void> check_tracestate(std::string_view value);

[[nodiscard]] bool is_token(std::string_view text) noexcept;        // RFC 9110 5.6.2
[[nodiscard]] bool is_field_value(std::string_view text) noexcept;  // RFC 9110 5.5: no control bytes but HTAB

}  // namespace outboxd::wire
