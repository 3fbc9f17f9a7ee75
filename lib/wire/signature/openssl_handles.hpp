// OpenSSL handles with owners. Included by .cpp files of this directory only. Floor 1.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace outboxd::wire {

template <auto Free>
struct openssl_free {
    template <class T>
    void operator()(T* handle) const noexcept {
        Free(handle);
    }
};
using evp_mac = std::unique_ptr<EVP_MAC, openssl_free<EVP_MAC_free>>;
using evp_mac_ctx = std::unique_ptr<EVP_MAC_CTX, openssl_free<EVP_MAC_CTX_free>>;
using evp_md = std::unique_ptr<EVP_MD, openssl_free<EVP_MD_free>>;
using evp_md_ctx = std::unique_ptr<EVP_MD_CTX, openssl_free<EVP_MD_CTX_free>>;
using evp_pkey = std::unique_ptr<EVP_PKEY, openssl_free<EVP_PKEY_free>>;

[[nodiscard]] inline const unsigned char* octets(std::string_view bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Our input was checked before, so a failing call means that OpenSSL has no memory or no provider: a broken invariant.
inline void must(bool done, const char* what) {
    if (!done) throw base::failure(base::make_error(base::errc::internal, std::string("OpenSSL failed: ") + what));
}

}  // namespace outboxd::wire
