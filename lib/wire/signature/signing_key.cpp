#include "wire/signature/signing_key.hpp"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "base/encoding.hpp"
#include "wire/signature/content_digest.hpp"
#include "wire/signature/openssl_handles.hpp"

namespace outboxd::wire {

namespace {

constexpr std::size_t least_key = 16;
constexpr std::string_view accepted = "write whsec_ or whsk_ and base64, or bare base64";

base::error bad_key(std::string_view why) {
    return base::make_error(base::errc::invalid_input, "the secret " + std::string(why) + "; " + std::string(accepted));
}

// Keyed HMAC-SHA256 state. The algorithm is fetched once per process, the key schedule is computed once per key.
evp_mac_ctx make_mac(std::string_view key) {
    static const evp_mac algorithm{EVP_MAC_fetch(nullptr, "HMAC", nullptr)};
    evp_mac_ctx ctx{EVP_MAC_CTX_new(algorithm.get())};
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    must(ctx && EVP_MAC_init(ctx.get(), octets(key), key.size(), params) == 1, "HMAC key");
    return ctx;
}

evp_pkey make_private_key(std::string_view seed) {
    evp_pkey key{EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, octets(seed), seed.size())};
    must(key != nullptr, "ed25519 key");
    return key;
}

std::string public_bytes(EVP_PKEY* key) {
    std::string out(32, '\0');
    std::size_t length = out.size();
    must(EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(out.data()), &length) == 1 && length == out.size(), "ed25519 public key");
    return out;
}

std::string short_digest(std::string_view bytes) {
    const auto digest = sha256(bytes);
    return base::hex_encode({digest.data(), 4});
}

std::string random_bytes(std::size_t count) {
    std::string out(count, '\0');
    must(RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(count)) == 1, "random bytes");
    return out;
}

}  // namespace

struct signing_key::state {
    signing_key::kind type{signing_key::kind::hmac_sha256};
    evp_mac_ctx mac;
    evp_pkey pair;
    std::string public_part;
    std::string key_id;
    std::string scratch;  // ed25519 signs one piece of memory
};

base::result<signing_key> signing_key::parse(const base::secret& text) {
    auto value = text.reveal();
    if (value.empty()) return bad_key("is empty");
    if (value.starts_with("whpk_")) return bad_key("is a public key (whpk_), which cannot sign");
    const bool is_pair = value.starts_with("whsk_");
    if (is_pair)
        value.remove_prefix(5);
    else if (value.starts_with("whsec_"))
        value.remove_prefix(6);
    auto decoded = base::base64_decode(value);
    if (!decoded) return bad_key("is not valid base64 (standard alphabet, with padding, no white space)");
    const base::secret bytes{std::move(*decoded)};
    const auto key = bytes.reveal();
    signing_key out;
    out.state_ = std::make_shared<state>();
    if (!is_pair) {
        if (key.size() < least_key) return bad_key("is shorter than 16 bytes");
        out.state_->mac = make_mac(key);
        out.state_->key_id = short_digest(key);
        return out;
    }
    if (key.size() != 32 && key.size() != 64) return bad_key("(whsk_) must hold a 32-byte seed, or seed and public key");
    out.state_->type = kind::ed25519;
    out.state_->pair = make_private_key(key.substr(0, 32));
    out.state_->public_part = public_bytes(out.state_->pair.get());
    if (key.size() == 64 && key.substr(32) != out.state_->public_part) return bad_key("(whsk_) holds a public key that does not belong to its seed");
    out.state_->key_id = short_digest(out.state_->public_part);
    return out;
}

base::result<signing_key> signing_key::raw_hmac(const base::secret& text) {
    if (text.empty()) return base::make_error(base::errc::invalid_input, "the secret is empty");
    signing_key out;
    out.state_ = std::make_shared<state>();
    out.state_->mac = make_mac(text.reveal());
    out.state_->key_id = short_digest(text.reveal());
    return out;
}

signing_key::kind signing_key::type() const noexcept {
    return state_->type;
}

std::string_view signing_key::sign_into(std::array<char, 64>& room, std::initializer_list<std::string_view> parts) const {
    auto* const out = reinterpret_cast<unsigned char*>(room.data());
    if (state_->type == kind::hmac_sha256) {
        auto* const mac = state_->mac.get();
        bool ok = EVP_MAC_init(mac, nullptr, 0, nullptr) == 1;  // back to the keyed state
        for (const auto part : parts) ok = ok && EVP_MAC_update(mac, octets(part), part.size()) == 1;
        std::size_t length = 0;
        must(ok && EVP_MAC_final(mac, out, &length, room.size()) == 1 && length == 32, "HMAC");
        return {room.data(), 32};
    }
    auto& signed_text = state_->scratch;
    signed_text.clear();
    for (const auto part : parts) signed_text.append(part);
    const evp_md_ctx ctx{EVP_MD_CTX_new()};
    std::size_t length = room.size();
    must(ctx && EVP_DigestSignInit(ctx.get(), nullptr, nullptr, nullptr, state_->pair.get()) == 1 &&
             EVP_DigestSign(ctx.get(), out, &length, octets(signed_text), signed_text.size()) == 1 && length == 64,
         "ed25519 signature");
    return {room.data(), 64};
}

std::string signing_key::sign(std::initializer_list<std::string_view> parts) const {
    std::array<char, 64> room{};
    return std::string(sign_into(room, parts));
}

std::string signing_key::public_text() const {
    return state_->public_part.empty() ? std::string{} : "whpk_" + base::base64_encode(state_->public_part);
}

std::string signing_key::public_jwk() const {
    if (state_->public_part.empty()) return {};
    return R"({"kty":"OKP","crv":"Ed25519","x":")" + base::base64url_encode(state_->public_part) + R"(","kid":")" + state_->key_id +
           R"(","use":"sig","alg":"EdDSA"})";
}

const std::string& signing_key::key_id() const noexcept {
    return state_->key_id;
}

std::string generate_whsec() {
    return "whsec_" + base::base64_encode(base::secret{random_bytes(32)}.reveal());
}

std::string generate_whsk() {
    const base::secret seed{random_bytes(32)};
    const auto pair = make_private_key(seed.reveal());
    return "whsk_" + base::base64_encode(base::secret{std::string(seed.reveal()) + public_bytes(pair.get())}.reveal());
}

}  // namespace outboxd::wire
