#include "https/certificate_text.hpp"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>

#include "base/encoding.hpp"
#include "base/time.hpp"

namespace outboxd::https {

namespace {

struct bio_free {
    void operator()(BIO* bio) const noexcept { BIO_free(bio); }
};

std::string name_text(const X509_NAME* name) {
    const std::unique_ptr<BIO, bio_free> bio(BIO_new(BIO_s_mem()));
    if (!bio || name == nullptr) return "?";
    X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return base::printable(std::string_view(data, size > 0 ? static_cast<std::size_t>(size) : 0), 160);
}

std::string date_text(const ASN1_TIME* when) {
    std::tm parts{};
    if (when == nullptr || ASN1_TIME_to_tm(when, &parts) != 1) return "an unreadable date";
    return base::format_rfc3339(base::wall_time{std::chrono::seconds{::timegm(&parts)}});
}

// The names of a certificate, addresses only counted: they may be internal ones.
std::string alternative_names(const X509* certificate) {
    auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    std::string text;
    int shown = 0;
    int left = 0;
    int addresses = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
        const GENERAL_NAME* one = sk_GENERAL_NAME_value(names, i);
        if (one->type == GEN_IPADD) ++addresses;
        if (one->type != GEN_DNS) continue;
        if (shown == 3) {
            ++left;
            continue;
        }
        const auto* bytes = reinterpret_cast<const char*>(ASN1_STRING_get0_data(one->d.dNSName));
        text += (text.empty() ? "" : ", ") + base::printable(std::string_view(bytes, static_cast<std::size_t>(ASN1_STRING_length(one->d.dNSName))), 64);
        ++shown;
    }
    GENERAL_NAMES_free(names);
    if (left > 0) text += " and " + std::to_string(left) + " more";
    if (addresses > 0) text += (text.empty() ? "" : " and ") + std::to_string(addresses) + (addresses == 1 ? " address" : " addresses");
    return text;
}

std::string mismatch(const X509* leaf, std::string_view host) {
    const std::string names = leaf == nullptr ? std::string{} : alternative_names(leaf);
    if (names.empty())
        return describe_subject(leaf) + " has no subject alternative name, and a common name does not count (RFC 6125): not valid for " + std::string(host);
    return describe_subject(leaf) + " is valid for " + names + ", not for " + std::string(host);
}

}  // namespace

std::string describe_subject(const X509* certificate) {
    if (certificate == nullptr) return "the certificate";
    const std::string subject = name_text(X509_get_subject_name(certificate));
    return subject.empty() ? "the certificate without a subject" : "certificate \"" + subject + "\"";
}

std::string describe_verification(int error, X509* current, X509* leaf, std::string_view host) {
    const std::string subject = describe_subject(current);
    switch (error) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH: return mismatch(leaf, host);
        case X509_V_ERR_CERT_HAS_EXPIRED: return subject + " expired on " + date_text(current == nullptr ? nullptr : X509_get0_notAfter(current));
        case X509_V_ERR_CERT_NOT_YET_VALID: return subject + " is not valid before " + date_text(current == nullptr ? nullptr : X509_get0_notBefore(current));
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: return subject + " is self-signed and not trusted";
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: return "the chain ends in the root " + subject + ", which is not trusted";
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
            return subject + " was issued by \"" + (current == nullptr ? "?" : name_text(X509_get_issuer_name(current))) +
                   "\", which is not trusted: unknown authority, or the receiver does not send its intermediate certificate";
        case X509_V_ERR_INVALID_PURPOSE: return subject + " may not be used by a server (key usage)";
        case X509_V_ERR_CERT_REVOKED: return subject + " has been revoked";
        case X509_V_ERR_EE_KEY_TOO_SMALL:
        case X509_V_ERR_CA_KEY_TOO_SMALL:
        case X509_V_ERR_CA_MD_TOO_WEAK: return subject + " is too weak: " + X509_verify_cert_error_string(error);
        default: return subject + " is not accepted: " + X509_verify_cert_error_string(error);
    }
}

std::string describe_tls_error(unsigned long code) {
    if (code == 0) return "the connection was closed during the TLS handshake";
    const int reason = ERR_GET_REASON(code);
    if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
        switch (reason) {
            case SSL_R_UNSUPPORTED_PROTOCOL:
            case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
            case SSL_R_WRONG_SSL_VERSION: return "no TLS version in common: the receiver's are too old";
            case SSL_R_WRONG_VERSION_NUMBER:
            case SSL_R_HTTP_REQUEST: return "the receiver does not speak TLS on this port";
            case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED: return "the receiver demands a client certificate";
            default: break;
        }
    }
    const char* text = ERR_reason_error_string(code);
    if (text == nullptr) return "TLS error " + std::to_string(reason);
    // OpenSSL spells alerts `tlsv1 alert unknown ca`: they come from the other side.
    const std::string_view phrase = text;
    const std::size_t alert = phrase.find("alert ");
    if (alert != std::string_view::npos) return "the receiver refused the handshake: " + std::string(phrase.substr(alert + 6));
    return "TLS error: " + std::string(phrase);
}

std::string spki_sha256(const X509* certificate) {
    unsigned char* der = nullptr;
    const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
    if (size <= 0) return {};
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(der, static_cast<std::size_t>(size), digest);
    OPENSSL_free(der);
    return base::base64_encode(std::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

}  // namespace outboxd::https
