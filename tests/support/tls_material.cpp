#include "support/tls_material.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <utility>

namespace outboxd::testkit {
namespace {

struct key_deleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct certificate_deleter {
  void operator()(X509* x) const { X509_free(x); }
};
using key_pointer = std::unique_ptr<EVP_PKEY, key_deleter>;
using x509_pointer = std::unique_ptr<X509, certificate_deleter>;

template <typename Write>
std::string to_pem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  write(bio);
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(length));
  BIO_free(bio);
  return text;
}

std::string pem_of(X509* x) {
  return to_pem([x](BIO* bio) { PEM_write_bio_X509(bio, x); });
}
std::string pem_of(EVP_PKEY* key) {
  return to_pem([key](BIO* bio) { PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

key_pointer new_key() {
  key_pointer key(EVP_EC_gen("P-256"));
  if (!key) throw std::runtime_error("OpenSSL makes no P-256 key");
  return key;
}

void add_extension(X509* subject, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) throw std::runtime_error("bad certificate extension: " + value);
  X509_add_ext(subject, extension, -1);
  X509_EXTENSION_free(extension);
}

/// The part that every certificate has: version, number, names, times, key.
x509_pointer begin(EVP_PKEY* key, const std::string& common_name, X509* issuer, std::chrono::seconds not_before,
                   std::chrono::seconds not_after) {
  x509_pointer x(X509_new());
  X509_set_version(x.get(), X509_VERSION_3);
  unsigned char number[8];
  RAND_bytes(number, sizeof number);
  number[0] = static_cast<unsigned char>(number[0] & 0x7F);
  BIGNUM* serial = BN_bin2bn(number, sizeof number, nullptr);
  BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(x.get()));
  BN_free(serial);
  const std::time_t now = std::time(nullptr);
  ASN1_TIME_set(X509_getm_notBefore(x.get()), now + not_before.count());
  ASN1_TIME_set(X509_getm_notAfter(x.get()), now + not_after.count());
  X509_set_pubkey(x.get(), key);
  X509_NAME* name = X509_get_subject_name(x.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common_name.c_str()), -1,
                             -1, 0);
  X509_set_issuer_name(x.get(), issuer != nullptr ? X509_get_subject_name(issuer) : name);
  return x;
}

x509_pointer make_authority(EVP_PKEY* key, const std::string& name, X509* issuer, EVP_PKEY* issuer_key) {
  x509_pointer x = begin(key, name, issuer, std::chrono::hours{-48}, std::chrono::hours{24 * 365});
  X509* signer = issuer != nullptr ? issuer : x.get();
  add_extension(x.get(), signer, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(x.get(), signer, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(x.get(), signer, NID_subject_key_identifier, "hash");
  X509_sign(x.get(), issuer_key != nullptr ? issuer_key : key, EVP_sha256());
  return x;
}

certificate make_leaf(const certificate_request& request, X509* issuer, EVP_PKEY* issuer_key, const std::string& chain) {
  const key_pointer key = new_key();
  const x509_pointer x = begin(key.get(), request.common_name, issuer, request.not_before, request.not_after);
  X509* signer = issuer != nullptr ? issuer : x.get();
  add_extension(x.get(), signer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(x.get(), signer, NID_key_usage, "critical,digitalSignature");
  std::string usage;
  if (request.server_auth) usage = "serverAuth";
  if (request.client_auth) usage += usage.empty() ? "clientAuth" : ",clientAuth";
  if (!usage.empty()) add_extension(x.get(), signer, NID_ext_key_usage, usage);
  std::string names;
  for (const std::string& name : request.dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  for (const std::string& address : request.ip_addresses) names += (names.empty() ? "IP:" : ",IP:") + address;
  if (!names.empty()) add_extension(x.get(), signer, NID_subject_alt_name, names);
  X509_sign(x.get(), issuer_key != nullptr ? issuer_key : key.get(), EVP_sha256());
  return {pem_of(x.get()) + chain, pem_of(key.get())};
}

}  // namespace

struct certificate_authority::state {
  key_pointer key;
  x509_pointer x;
  std::string pem;
  std::string chain;  ///< what a leaf carries behind itself: nothing below a root
};

certificate_authority::certificate_authority(std::string_view common_name) : state_(std::make_unique<state>()) {
  state_->key = new_key();
  state_->x = make_authority(state_->key.get(), std::string(common_name), nullptr, nullptr);
  state_->pem = pem_of(state_->x.get());
}

certificate_authority::certificate_authority(std::unique_ptr<state> s) : state_(std::move(s)) {}
certificate_authority::~certificate_authority() = default;
certificate_authority::certificate_authority(certificate_authority&&) noexcept = default;
certificate_authority& certificate_authority::operator=(certificate_authority&&) noexcept = default;

const std::string& certificate_authority::certificate_pem() const { return state_->pem; }

certificate certificate_authority::issue(const certificate_request& request) const {
  return make_leaf(request, state_->x.get(), state_->key.get(), state_->chain);
}

certificate_authority certificate_authority::intermediate(std::string_view common_name) const {
  auto below = std::make_unique<state>();
  below->key = new_key();
  below->x = make_authority(below->key.get(), std::string(common_name), state_->x.get(), state_->key.get());
  below->pem = pem_of(below->x.get());
  below->chain = below->pem + state_->chain;
  return certificate_authority(std::move(below));
}

certificate certificate_authority::for_localhost() const {
  certificate_request request;
  request.dns_names = {"localhost"};
  request.ip_addresses = {"127.0.0.1", "::1"};
  return issue(request);
}

certificate certificate_authority::wrong_name() const {
  certificate_request request;
  request.common_name = "other.example.test";
  request.dns_names = {"other.example.test"};
  return issue(request);
}

certificate certificate_authority::expired() const {
  certificate_request request;
  request.dns_names = {"localhost"};
  request.ip_addresses = {"127.0.0.1"};
  request.not_before = std::chrono::hours{-48};
  request.not_after = std::chrono::hours{-24};
  return issue(request);
}

certificate certificate_authority::not_yet_valid() const {
  certificate_request request;
  request.dns_names = {"localhost"};
  request.ip_addresses = {"127.0.0.1"};
  request.not_before = std::chrono::hours{24};
  request.not_after = std::chrono::hours{48};
  return issue(request);
}

certificate certificate_authority::common_name_only() const { return issue(certificate_request{}); }

certificate certificate_authority::client_only() const {
  certificate_request request;
  request.dns_names = {"localhost"};
  request.ip_addresses = {"127.0.0.1"};
  request.server_auth = false;
  request.client_auth = true;
  return issue(request);
}

certificate self_signed(const certificate_request& request) { return make_leaf(request, nullptr, nullptr, ""); }

temporary_directory::temporary_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "outboxd-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a directory below " + name);
  path_ = name;
}

temporary_directory::~temporary_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path temporary_directory::write(std::string_view name, std::string_view content, unsigned mode) const {
  const std::filesystem::path path = path_ / name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  if (!out || chmod(path.c_str(), mode) != 0) throw std::runtime_error("cannot write " + path.string());
  return path;
}

}  // namespace outboxd::testkit
