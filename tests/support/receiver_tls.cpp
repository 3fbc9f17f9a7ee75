#include "support/receiver_tls.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <stdexcept>

namespace outboxd::testkit {

std::string openssl_error() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    char buffer[256];
    ERR_error_string_n(code, buffer, sizeof buffer);
    text += (text.empty() ? "" : "; ") + std::string(buffer);
  }
  return text.empty() ? "connection closed" : text;
}

ssl_context make_context(const certificate& identity, const raw_receiver_options& options) {
  ssl_context context(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_min_proto_version(context.get(), 0);
  SSL_CTX_set_security_level(context.get(), 0);  // so that an old protocol can be offered on purpose
  if (options.max_tls_version == "1.1") SSL_CTX_set_max_proto_version(context.get(), TLS1_1_VERSION);
  if (options.max_tls_version == "1.2") SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  BIO* bio = BIO_new_mem_buf(identity.certificate_pem.data(), static_cast<int>(identity.certificate_pem.size()));
  bool first = true;
  while (X509* x = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) {
    if (first) {
      SSL_CTX_use_certificate(context.get(), x);
      X509_free(x);
    } else {
      SSL_CTX_add_extra_chain_cert(context.get(), x);  // takes it over
    }
    first = false;
  }
  BIO_free(bio);
  bio = BIO_new_mem_buf(identity.key_pem.data(), static_cast<int>(identity.key_pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) throw std::runtime_error("receiver: " + openssl_error());
  EVP_PKEY_free(key);
  ERR_clear_error();
  if (!options.client_ca_pem.empty()) {
    bio = BIO_new_mem_buf(options.client_ca_pem.data(), static_cast<int>(options.client_ca_pem.size()));
    X509* authority = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority);
    X509_free(authority);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  const unsigned char id[] = "outboxd-test";
  SSL_CTX_set_session_id_context(context.get(), id, sizeof id - 1);
  return context;
}

}  // namespace outboxd::testkit
