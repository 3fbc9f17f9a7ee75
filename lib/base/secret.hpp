// A secret value: wiped when it goes, not streamable, not comparable by accident. Floor 0.
#pragma once

#include <string>
#include <string_view>

namespace outboxd::base {

class secret {
public:
    secret() = default;
    explicit secret(std::string value);
    secret(const secret&) = default;
    secret(secret&& other) noexcept;
    secret& operator=(const secret& other);
    secret& operator=(secret&& other) noexcept;
    ~secret();

    // The bytes. Every caller of reveal() is a place where the secret is really needed (signing, connecting).
    [[nodiscard]] std::string_view reveal() const noexcept { return value_; }
    [[nodiscard]] bool empty() const noexcept { return value_.empty(); }
    // Constant in time for values of one length (CRYPTO_memcmp).
    [[nodiscard]] bool equals(std::string_view other) const noexcept;

private:
    void wipe() noexcept;
    std::string value_;
};

}  // namespace outboxd::base
