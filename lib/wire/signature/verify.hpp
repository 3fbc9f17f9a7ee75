// The receiver's side: checks a request that claims to come from outboxd. For the command `verify` and for tests. Floor 1, pure.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "base/time.hpp"
#include "wire/endpoint.hpp"

namespace outboxd::wire {

// What a receiver holds: the shared secret, or the sender's public key.
class verification_key {
public:
    // As make_signing_key, and `whpk_` + base64 for an ed25519 public key. Error: invalid_input, never repeats the value.
    [[nodiscard]] static base::result<verification_key> parse(signing_scheme scheme, const base::secret& text);
    [[nodiscard]] bool is_ed25519() const noexcept;
    // HMAC: recomputed and compared in constant time. ed25519: verified.
    [[nodiscard]] bool verify(std::string_view signature, std::initializer_list<std::string_view> parts) const;
    // The HMAC that a shared secret gives; only when is_ed25519() is false.
    [[nodiscard]] std::string sign_shared(std::initializer_list<std::string_view> parts) const;
    [[nodiscard]] const std::string& key_id() const noexcept;

private:
    struct state;
    std::shared_ptr<state> state_;
};

struct received_request {
    std::string method{"POST"};
    std::string scheme{"https"};
    std::string authority;  // of the Host field; empty: the Host header is used
    std::string target{"/"};
    header_list headers;  // as received
    std::string body;
};

struct verification {
    bool valid{false};
    std::string text;  // one sentence: which key signed, or why not
};

// `tolerance`: how far the signed time may lie from `now`, either way (receivers use 300 s); 0: the time is not looked at. A request that carries several
// signatures is valid when one of them is. rfc9421: the signature must cover content-digest and the digest must match; adcp: all of the profile's components,
// its tag, created and expires.
[[nodiscard]] verification verify_request(signing_scheme scheme, const std::vector<verification_key>& keys, const received_request& request,
                                          base::wall_time now, base::seconds tolerance);

}  // namespace outboxd::wire
