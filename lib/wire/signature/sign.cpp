#include "wire/signature/sign.hpp"

#include "wire/signature/github.hpp"
#include "wire/signature/rfc9421.hpp"
#include "wire/signature/standard_webhooks.hpp"
#include "wire/signature/stripe.hpp"

namespace outboxd::wire {

base::result<void> append_signature_fields(std::string& out, const signer& with, const signature_input& in) {
    if (with.keys.empty()) return {};
    switch (with.scheme) {
        case signing_scheme::none: return {};
        case signing_scheme::standard_webhooks: append_standard_webhooks(out.append("webhook-signature: "), with.keys, in.id, in.timestamp, in.body); break;
        case signing_scheme::github: append_github(out.append("X-Hub-Signature-256: "), with.keys.front(), in.body); break;
        case signing_scheme::stripe: append_stripe(out.append("Stripe-Signature: "), with.keys, in.timestamp, in.body); break;
        case signing_scheme::rfc9421:
        case signing_scheme::adcp:
        case signing_scheme::adcp_base64: return append_rfc9421(out, with.scheme, with.keys, in);
    }
    out.append("\r\n");
    return {};
}

base::result<signing_key> make_signing_key(signing_scheme scheme, const base::secret& text) {
    if (signs_with_text(scheme)) return signing_key::raw_hmac(text);
    auto key = signing_key::parse(text);
    const bool wants_pair = scheme == signing_scheme::adcp || scheme == signing_scheme::adcp_base64;
    if (key && wants_pair && key->type() != signing_key::kind::ed25519)
        return base::make_error(base::errc::invalid_input,
                                "signing " + std::string(to_string(scheme)) + " needs an ed25519 key; make a whsk_ secret with `outboxd keygen`");
    return key;
}

}  // namespace outboxd::wire
