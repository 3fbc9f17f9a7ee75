#include "base/secret.hpp"

#include <openssl/crypto.h>

#include <utility>

namespace outboxd::base {

namespace {

// A short std::string keeps its bytes inside itself and a moved-from one keeps a copy, so the whole capacity is overwritten, not only the length.
void wipe_string(std::string& text) noexcept {
    text.resize(text.capacity());
    OPENSSL_cleanse(text.data(), text.size());
    text.clear();
}

}  // namespace

secret::secret(std::string value) : value_(std::move(value)) {
    wipe_string(value);
}

secret::secret(secret&& other) noexcept : value_(std::move(other.value_)) {
    other.wipe();
}

secret& secret::operator=(const secret& other) {
    if (this == &other) return *this;
    wipe();  // first: growing the string would free the old bytes as they are
    value_ = other.value_;
    return *this;
}

secret& secret::operator=(secret&& other) noexcept {
    if (this == &other) return *this;
    wipe();
    value_ = std::move(other.value_);
    other.wipe();
    return *this;
}

secret::~secret() {
    wipe();
}

bool secret::equals(std::string_view other) const noexcept {
    return value_.size() == other.size() && CRYPTO_memcmp(value_.data(), other.data(), other.size()) == 0;
}

void secret::wipe() noexcept {
    wipe_string(value_);
}

}  // namespace outboxd::base
