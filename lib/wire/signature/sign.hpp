// One door to all signing schemes. Floor 1, pure.
#pragma once

#include <string>

#include "base/error.hpp"
#include "wire/endpoint.hpp"
#include "wire/signature/signature_input.hpp"

namespace outboxd::wire {

// Appends the complete header lines of the signer's scheme, each ended by CR LF; nothing for `none` or without keys. github has room for one signature: the
// newest key signs. Error: invalid_input when the scheme cannot use a key; `out` is then as before.
[[nodiscard]] base::result<void> append_signature_fields(std::string& out, const signer& with, const signature_input& in);

// The secret as the key that the scheme wants: its text for github and stripe, decoded otherwise. Error: signing_key::parse, signing_key::raw_hmac, or a kind
// that the scheme cannot use.
[[nodiscard]] base::result<signing_key> make_signing_key(signing_scheme scheme, const base::secret& text);

}  // namespace outboxd::wire
