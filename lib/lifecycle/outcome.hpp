// What an attempt meant, and how its fault is called. Floor 1, pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace outboxd::lifecycle {

enum class outcome : std::uint8_t { published, retried, failed, expired, cancelled, lost, released };
[[nodiscard]] std::string_view to_string(outcome o) noexcept;

// The class of a fault as written in outbox.attempt.error_class; none for a success. `http` is an answer with a status that is no success.
enum class error_class : std::uint8_t { none, dns, connect, tls, timeout, redirect, http, blocked, proxy, protocol, payload, header, url, tenant, local, signing };
[[nodiscard]] std::string_view to_string(error_class c) noexcept;  // "" for none

}  // namespace outboxd::lifecycle
