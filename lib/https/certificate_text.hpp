// Sentences about certificates and TLS faults, for people. Floor 4, used inside the room only.
#pragma once

#include <string>
#include <string_view>

struct x509_st;

namespace outboxd::https {

// `certificate "CN=billing.example.com"`, printable, at most 200 bytes.
[[nodiscard]] std::string describe_subject(const x509_st* certificate);
// Why a chain was not accepted: which certificate, which name, which date. `current` is the certificate at fault, `leaf` the receiver's own; either may be
// null.
[[nodiscard]] std::string describe_verification(int error, x509_st* current, x509_st* leaf, std::string_view host);
// An entry of OpenSSL's error queue: alerts by name, version and cipher trouble as sentences.
[[nodiscard]] std::string describe_tls_error(unsigned long code);
// base64 of the SHA-256 of the SubjectPublicKeyInfo (RFC 7469 section 2.4); empty when it cannot be had.
[[nodiscard]] std::string spki_sha256(const x509_st* certificate);

}  // namespace outboxd::https
