// HTTP Message Signatures (RFC 9421): the signature base, and the fields that we send. Floor 1, pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "wire/endpoint.hpp"
#include "wire/signature/signature_input.hpp"

namespace outboxd::wire {

// What a signature may cover. Fields by lower-case name; a field that came in several lines is joined by ", " (RFC 9421 2.1).
struct signed_request {
    std::string_view method;
    std::string_view scheme;     // http | https
    std::string_view authority;  // lower case, without the scheme's default port
    std::string_view target;     // path and query
    std::function<std::optional<std::string>(std::string_view)> field;
};

// RFC 9421 2.5. `components` are names such as `@method` or `content-type`; `params` is the text behind `@signature-params`: `("@method" ...);created=...`.
// Error: invalid_input, names the component that the request does not have or that is not supported (parameters such as ;sf ;key ;req are not).
[[nodiscard]] base::result<std::string> signature_base(const std::vector<std::string>& components, std::string_view params, const signed_request& request);

// The value of Signature-Input for one label, without the label. `created` in seconds; `nonce` is text, empty: none.
// rfc9421: created, keyid, alg, and the nonce when there is one. adcp: created, expires (300 s later), nonce, keyid, alg and tag in the order of AdCP's
// vectors.
[[nodiscard]] std::string signature_params(signing_scheme scheme, const std::vector<std::string>& components, std::int64_t created, std::string_view nonce,
                                           const signing_key& key, std::string_view key_id);
// The components that we cover.
[[nodiscard]] const std::vector<std::string>& covered_components(signing_scheme scheme);

// Appends the lines Content-Digest, Signature-Input and Signature, one label (sig1, sig2 ...) for each key. `nonce` is random bytes, at least 16 for adcp.
// Error: invalid_input when the scheme cannot use a key (adcp wants ed25519) or the nonce is missing; `out` is then as before.
[[nodiscard]] base::result<void> append_rfc9421(std::string& out, signing_scheme scheme, const std::vector<signing_key>& keys, const signature_input& in);

}  // namespace outboxd::wire
