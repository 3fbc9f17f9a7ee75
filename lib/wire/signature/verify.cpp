#include "wire/signature/verify.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>

#include "base/encoding.hpp"
#include "wire/signature/content_digest.hpp"
#include "wire/signature/openssl_handles.hpp"
#include "wire/signature/rfc9421.hpp"
#include "wire/signature/sign.hpp"
#include "wire/signature/signature_input_field.hpp"

namespace outboxd::wire {

struct verification_key::state {
    std::optional<signing_key> shared;  // HMAC
    evp_pkey public_key;                // ed25519
    std::string key_id;
};

namespace {

bool same_bytes(std::string_view a, std::string_view b) noexcept {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

verification invalid(std::string text) {
    return {false, std::move(text)};
}
verification valid(std::string_view what, const verification_key& key) {
    return {true, "valid: " + std::string(what) + " by key " + key.key_id()};
}

std::optional<std::string> field_of(const received_request& request, std::string_view name) {
    std::optional<std::string> out;
    for (const auto& [header, value] : request.headers) {
        if (!base::iequals(header, name)) continue;
        const auto first = value.find_first_not_of(" \t");
        const auto text = first == std::string::npos ? std::string{} : value.substr(first, value.find_last_not_of(" \t") - first + 1);
        out = out ? *out + ", " + text : text;
    }
    return out;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    // Fifteen digits are enough for any second and keep the subtraction from the clock in range.
    if (fault != std::errc{} || end != text.data() + text.size() || text.size() > 15) return std::nullopt;
    return value;
}

// Empty when the signed time is near enough; otherwise the sentence.
std::string time_fault(std::int64_t signed_at, base::wall_time now, base::seconds tolerance) {
    if (tolerance.count() <= 0) return {};
    const auto age = std::chrono::floor<base::seconds>(now).time_since_epoch().count() - signed_at;
    if (age > tolerance.count()) return "the signed time is " + std::to_string(age) + " s old, more than the tolerance";
    if (age < -tolerance.count()) return "the signed time lies " + std::to_string(-age) + " s ahead, more than the tolerance";
    return {};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> out;
    while (true) {
        const auto end = text.find(separator);
        out.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return out;
        text.remove_prefix(end + 1);
    }
}

using key_list = std::vector<verification_key>;

verification verify_standard_webhooks(const key_list& keys, const received_request& request, base::wall_time now, base::seconds tolerance) {
    const auto id = field_of(request, "webhook-id");
    const auto timestamp = field_of(request, "webhook-timestamp");
    const auto signatures = field_of(request, "webhook-signature");
    if (!id || !timestamp || !signatures) return invalid("the request lacks webhook-id, webhook-timestamp or webhook-signature");
    const auto at = whole_number(*timestamp);
    if (!at) return invalid("webhook-timestamp is no whole number of seconds");
    for (const auto one : split(*signatures, ' ')) {
        const bool pair = one.starts_with("v1a,");
        if (!pair && !one.starts_with("v1,")) continue;
        const auto bytes = base::base64_decode(one.substr(pair ? 4 : 3));
        for (const auto& key : keys) {
            if (!bytes || key.is_ed25519() != pair || !key.verify(*bytes, {*id, ".", *timestamp, ".", request.body})) continue;
            if (auto fault = time_fault(*at, now, tolerance); !fault.empty()) return invalid("the signature is right, but " + fault);
            return valid(pair ? "v1a signature" : "v1 signature", key);
        }
    }
    return invalid("no signature of webhook-signature fits the body, the id and the time with this secret");
}

verification verify_github(const key_list& keys, const received_request& request) {
    const auto field = field_of(request, "x-hub-signature-256");
    if (!field) return invalid("the request lacks X-Hub-Signature-256");
    for (const auto& key : keys) {
        if (key.is_ed25519()) continue;
        // Compared as text: hex in upper case is not what GitHub sends.
        std::string expected = "sha256=";
        expected += base::hex_encode(key.sign_shared({request.body}));
        if (same_bytes(expected, *field)) return valid("X-Hub-Signature-256", key);
    }
    return invalid("X-Hub-Signature-256 does not fit the body with this secret");
}

verification verify_stripe(const key_list& keys, const received_request& request, base::wall_time now, base::seconds tolerance) {
    const auto field = field_of(request, "stripe-signature");
    if (!field) return invalid("the request lacks Stripe-Signature");
    std::string_view timestamp;
    for (const auto part : split(*field, ',')) {
        if (part.starts_with("t=")) timestamp = part.substr(2);
    }
    const auto at = whole_number(timestamp);
    if (!at) return invalid("Stripe-Signature has no whole number of seconds as t");
    for (const auto part : split(*field, ',')) {
        for (const auto& key : keys) {
            if (!part.starts_with("v1=") || key.is_ed25519() || !same_bytes(base::hex_encode(key.sign_shared({timestamp, ".", request.body})), part.substr(3)))
                continue;
            if (auto fault = time_fault(*at, now, tolerance); !fault.empty()) return invalid("the signature is right, but " + fault);
            return valid("Stripe-Signature", key);
        }
    }
    return invalid("no v1 of Stripe-Signature fits the body and the time with this secret");
}

bool covers(const signature_entry& entry, std::string_view component) {
    return std::find(entry.components.begin(), entry.components.end(), component) != entry.components.end();
}

// Empty when the entry fulfils the scheme's rules apart from the signature itself.
std::string entry_fault(signing_scheme scheme, const signature_entry& entry, const received_request& request, base::wall_time now, base::seconds tolerance) {
    const bool adcp = scheme != signing_scheme::rfc9421;
    if (!covers(entry, "content-digest")) return "the signature does not cover content-digest";
    const auto digest = field_of(request, "content-digest");
    if (!digest || !content_digest_matches(*digest, request.body)) return "Content-Digest does not fit the body";
    if (adcp) {
        for (const auto& component : covered_components(scheme)) {
            if (!covers(entry, component)) return "the signature does not cover " + component;
        }
        if (entry.tag != "adcp/webhook-signing/v1") return "the tag is not adcp/webhook-signing/v1";
        if (!entry.created || !entry.expires) return "created or expires is missing";
    }
    if (!entry.created) return tolerance.count() > 0 ? "created is missing" : "";
    if (auto fault = time_fault(*entry.created, now, tolerance); !fault.empty()) return fault;
    const auto seconds_now = std::chrono::floor<base::seconds>(now).time_since_epoch().count();
    if (tolerance.count() > 0 && entry.expires && *entry.expires < seconds_now) return "the signature has expired";
    return {};
}

verification verify_rfc9421(signing_scheme scheme, const key_list& keys, const received_request& request, base::wall_time now, base::seconds tolerance) {
    const auto inputs = field_of(request, "signature-input");
    const auto signatures = field_of(request, "signature");
    if (!inputs || !signatures) return invalid("the request lacks Signature-Input or Signature");
    const auto entries = read_signature_input(*inputs);
    if (!entries) return invalid("Signature-Input is not readable, or covers a component with parameters");
    const std::string authority = base::to_lower_ascii(request.authority.empty() ? field_of(request, "host").value_or("") : request.authority);
    signed_request view{request.method, request.scheme, authority, request.target, {}};
    view.field = [&request](std::string_view name) { return field_of(request, name); };
    std::string why = "no signature fits the request with this key";
    for (const auto& entry : *entries) {
        const auto bytes = read_signature(*signatures, entry.label);
        const auto text = signature_base(entry.components, entry.params, view);
        if (!bytes || !text) {
            why = text ? "Signature has no readable value for " + base::printable(entry.label, 40) : text.error().text;
            continue;
        }
        for (const auto& key : keys) {
            if (!entry.alg.empty() && entry.alg != (key.is_ed25519() ? "ed25519" : "hmac-sha256")) continue;
            if (!key.verify(*bytes, {*text})) continue;
            if (auto fault = entry_fault(scheme, entry, request, now, tolerance); !fault.empty()) return invalid("the signature is right, but " + fault);
            return valid("signature " + base::printable(entry.label, 40), key);
        }
    }
    return invalid(why);
}

}  // namespace

base::result<verification_key> verification_key::parse(signing_scheme scheme, const base::secret& text) {
    verification_key out;
    out.state_ = std::make_shared<state>();
    std::string public_text(text.reveal().starts_with("whpk_") && !signs_with_text(scheme) ? text.reveal() : std::string_view{});
    if (public_text.empty()) {
        auto key = make_signing_key(scheme, text);
        if (!key) return key.error();
        out.state_->key_id = key->key_id();
        public_text = key->public_text();
        if (public_text.empty()) out.state_->shared = std::move(*key);
    }
    if (out.state_->shared) return out;
    const auto bytes = base::base64_decode(std::string_view{public_text}.substr(5));
    if (!bytes || bytes->size() != 32) return base::make_error(base::errc::invalid_input, "the public key must be whpk_ and base64 of 32 bytes");
    out.state_->public_key.reset(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, octets(*bytes), bytes->size()));
    must(out.state_->public_key != nullptr, "ed25519 public key");
    const auto digest = sha256(*bytes);
    out.state_->key_id = base::hex_encode({digest.data(), 4});
    return out;
}

bool verification_key::is_ed25519() const noexcept {
    return state_->public_key != nullptr;
}
const std::string& verification_key::key_id() const noexcept {
    return state_->key_id;
}
std::string verification_key::sign_shared(std::initializer_list<std::string_view> parts) const {
    return state_->shared->sign(parts);
}

bool verification_key::verify(std::string_view signature, std::initializer_list<std::string_view> parts) const {
    if (state_->shared) return same_bytes(state_->shared->sign(parts), signature);
    std::string signed_text;
    for (const auto part : parts) signed_text.append(part);
    const evp_md_ctx ctx{EVP_MD_CTX_new()};
    must(ctx && EVP_DigestVerifyInit(ctx.get(), nullptr, nullptr, nullptr, state_->public_key.get()) == 1, "ed25519 verification");
    return EVP_DigestVerify(ctx.get(), octets(signature), signature.size(), octets(signed_text), signed_text.size()) == 1;
}

verification verify_request(signing_scheme scheme, const std::vector<verification_key>& keys, const received_request& request, base::wall_time now,
                            base::seconds tolerance) {
    switch (scheme) {
        case signing_scheme::none: return invalid("the scheme `none` has no signature to verify");
        case signing_scheme::standard_webhooks: return verify_standard_webhooks(keys, request, now, tolerance);
        case signing_scheme::github: return verify_github(keys, request);
        case signing_scheme::stripe: return verify_stripe(keys, request, now, tolerance);
        case signing_scheme::rfc9421:
        case signing_scheme::adcp:
        case signing_scheme::adcp_base64: return verify_rfc9421(scheme, keys, request, now, tolerance);
    }
    return invalid("unknown scheme");
}

}  // namespace outboxd::wire
