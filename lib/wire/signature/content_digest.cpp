#include "wire/signature/content_digest.hpp"

#include <openssl/crypto.h>

#include <algorithm>

#include "base/encoding.hpp"
#include "wire/signature/openssl_handles.hpp"

namespace outboxd::wire {

std::array<char, 32> sha256(std::string_view bytes) {
    // Fetched once: an implicit fetch per call costs more than the digest of a small body.
    static const evp_md algorithm{EVP_MD_fetch(nullptr, "SHA256", nullptr)};
    std::array<char, 32> out{};
    unsigned int length = 0;
    must(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &length, algorithm.get(), nullptr) == 1 && length == out.size(),
         "SHA-256");
    return out;
}

void append_content_digest(std::string& out, std::string_view body) {
    const auto digest = sha256(body);
    out += "sha-256=:";
    base::append_base64(out, {digest.data(), digest.size()});
    out += ':';
}

bool content_digest_matches(std::string_view field, std::string_view body) {
    constexpr std::string_view label = "sha-256=:";
    while (!field.empty()) {
        const auto comma = std::min(field.find(','), field.size());
        auto member = field.substr(0, comma);
        field.remove_prefix(std::min(comma + 1, field.size()));
        while (!member.empty() && (member.front() == ' ' || member.front() == '\t')) member.remove_prefix(1);
        while (!member.empty() && (member.back() == ' ' || member.back() == '\t')) member.remove_suffix(1);
        if (!member.starts_with(label) || member.size() < label.size() + 1 || !member.ends_with(':')) continue;
        const auto given = base::base64_decode(member.substr(label.size(), member.size() - label.size() - 1));
        const auto digest = sha256(body);
        return given && given->size() == digest.size() && CRYPTO_memcmp(given->data(), digest.data(), digest.size()) == 0;
    }
    return false;
}

}  // namespace outboxd::wire
