// What counts as a host name; shared by URLs and egress rules. Floor 1, pure.
#pragma once

#include <string_view>

namespace outboxd::wire {

// Labels of 1..63 letters, digits, hyphens (not at an end) and `_` (internal names carry it, resolvers accept it); 253 bytes at most; no trailing dot. RFC
// 1123 2.1.
[[nodiscard]] bool is_host_name(std::string_view text) noexcept;
// True when the last label is a number in any notation that some resolver reads as an IPv4 address (`127.1`, `0x7f.1`, `2130706433`): such a text is an address
// or an error, never a name.
[[nodiscard]] bool ends_in_number(std::string_view text) noexcept;

}  // namespace outboxd::wire
