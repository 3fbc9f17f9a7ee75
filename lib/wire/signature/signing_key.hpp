// A parsed signing secret with its key state prepared once. Floor 1, pure.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/secret.hpp"

namespace outboxd::wire {

// `whsec_`+base64 or bare base64 (HMAC-SHA256, at least 16 bytes) or `whsk_`+base64 (ed25519: 32-byte seed, or seed and public key). Cheap to copy (shared
// state); signing with one key object is not safe from two threads. OpenSSL's EVP_MAC state is initialised once and re-used (EVP_MAC_init with a NULL key).
class signing_key {
public:
    enum class kind { hmac_sha256, ed25519 };
    // Error: invalid_input, says what form is accepted; never repeats the value.
    [[nodiscard]] static base::result<signing_key> parse(const base::secret& text);
    // The secret's text bytes are the key (schemes `github` and `stripe`). Error: empty.
    [[nodiscard]] static base::result<signing_key> raw_hmac(const base::secret& text);
    [[nodiscard]] kind type() const noexcept;
    // Raw signature bytes over the concatenation of the parts: 32 (HMAC) or 64 (ed25519). Throws base::failure only when OpenSSL itself breaks (no memory).
    [[nodiscard]] std::string sign(std::initializer_list<std::string_view> parts) const;
    // The same without an allocation for HMAC: the bytes stand in `room`.
    [[nodiscard]] std::string_view sign_into(std::array<char, 64>& room, std::initializer_list<std::string_view> parts) const;
    // Public key as `whpk_`+base64 for ed25519, empty for HMAC.
    [[nodiscard]] std::string public_text() const;
    // Public key as a JSON Web Key (RFC 8037) with `kid` = key_id(), for receivers that fetch keys; empty for HMAC.
    [[nodiscard]] std::string public_jwk() const;
    [[nodiscard]] const std::string& key_id() const noexcept;  // stable, not secret: first 8 hex digits of SHA-256 over the key (ed25519: over the public key)

private:
    struct state;
    std::shared_ptr<state> state_;
};

[[nodiscard]] std::string generate_whsec();  // 32 random bytes
[[nodiscard]] std::string generate_whsk();   // a new ed25519 pair: seed and public key

}  // namespace outboxd::wire
