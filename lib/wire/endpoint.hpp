// An endpoint ready to send to: address, format, signing keys, static head. Floor 1, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/response_policy.hpp"
#include "wire/signature/signing_key.hpp"
#include "wire/url.hpp"

namespace outboxd::wire {

enum class body_format : std::uint8_t { raw, enriched, cloudevents_binary, cloudevents_structured };
[[nodiscard]] std::string_view to_string(body_format f) noexcept;
[[nodiscard]] std::optional<body_format> parse_body_format(std::string_view name) noexcept;

// adcp: the rfc9421 profile with the encoding of AdCP's own vectors (base64url, unpadded); adcp_base64: the same profile with the standard base64 that RFC 8941
// asks for.
enum class signing_scheme : std::uint8_t { none, standard_webhooks, rfc9421, adcp, adcp_base64, github, stripe };
[[nodiscard]] std::string_view to_string(signing_scheme s) noexcept;
[[nodiscard]] std::optional<signing_scheme> parse_signing_scheme(std::string_view name) noexcept;
// True for schemes whose key is the secret's text itself (signing_key::raw_hmac); the others take signing_key::parse.
[[nodiscard]] bool signs_with_text(signing_scheme s) noexcept;

enum class idempotency_key_format : std::uint8_t { bare, structured };

using header_list = std::vector<std::pair<std::string, std::string>>;

struct signer {
    signing_scheme scheme{signing_scheme::standard_webhooks};
    std::vector<signing_key> keys;  // newest first; all sign
};

// What request building needs of an endpoint (or of the defaults, for a direct URL).
struct request_profile {
    std::string method{"POST"};
    body_format format{body_format::raw};
    idempotency_key_format key_format{idempotency_key_format::bare};
    header_list own_headers;  // validated by check_own_headers
    wire::signer signer;
};

}  // namespace outboxd::wire
