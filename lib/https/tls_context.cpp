#include "https/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "https/tls_session.hpp"

namespace outboxd::https {

namespace {

// The newest entry of OpenSSL's error queue as a phrase; empties the queue.
std::string openssl_reason() {
    const unsigned long code = ERR_peek_last_error();
    const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
    ERR_clear_error();
    return reason == nullptr ? "unusable" : reason;
}

base::error unusable(const char* key, const std::string& path, const std::string& why) {
    return base::make_error(base::errc::bad_config, std::string("tls.") + key + " " + path + ": " + why);
}

base::result<void> trust(SSL_CTX* context, const std::string& path) {
    if (path.empty()) {
        if (SSL_CTX_set_default_verify_paths(context) != 1) return unusable("ca_file", "(the system's store)", openssl_reason());
        return {};
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return unusable("ca_file", path, std::strerror(errno));
    const int loaded = S_ISDIR(info.st_mode) ? SSL_CTX_load_verify_dir(context, path.c_str()) : SSL_CTX_load_verify_file(context, path.c_str());
    if (loaded != 1) return unusable("ca_file", path, openssl_reason());
    return {};
}

base::result<void> identify(SSL_CTX* context, const std::string& certificate, const std::string& key) {
    if (certificate.empty()) return {};
    if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) return unusable("client_cert", certificate, openssl_reason());
    const std::string& key_file = key.empty() ? certificate : key;
    if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) return unusable("client_key", key_file, openssl_reason());
    if (SSL_CTX_check_private_key(context) != 1) return unusable("client_key", key_file, "does not belong to " + certificate);
    return {};
}

}  // namespace

tls_context::~tls_context() {
    SSL_CTX_free(context_);
}

base::result<std::shared_ptr<const tls_context>> tls_context::make(const ports::tls_profile& profile) {
    ERR_clear_error();
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    if (context == nullptr) return base::make_error(base::errc::internal, "no memory for a TLS context");
    auto made = std::make_shared<tls_context>(context, profile);  // frees it on every way out
    if (profile.min_version != "1.2" && profile.min_version != "1.3") return unusable("min_version", profile.min_version, "is neither 1.2 nor 1.3");
    SSL_CTX_set_min_proto_version(context, profile.min_version == "1.3" ? TLS1_3_VERSION : TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    // Buffers are given back while a connection is idle: 34 KB less for each.
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    static const unsigned char alpn[] = "\x08http/1.1";
    if (SSL_CTX_set_alpn_protos(context, alpn, sizeof alpn - 1) != 0) return base::make_error(base::errc::internal, "no memory for a TLS context");
    if (profile.verify) {
        if (auto trusted = trust(context, profile.ca_file); !trusted) return trusted.error();
        // As every other client does: a certificate in ca_file is trusted although it is no root.
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    }
    if (auto identified = identify(context, profile.client_cert, profile.client_key); !identified) return identified.error();
    tls_session::prepare(context, profile.verify);
    return std::shared_ptr<const tls_context>(std::move(made));
}

void session_store::keep(SSL_SESSION* session) noexcept {
    clear();
    session_ = session;
}

void session_store::clear() noexcept {
    SSL_SESSION_free(session_);
    session_ = nullptr;
}

SSL_SESSION* session_store::usable() const {
    if (session_ == nullptr || SSL_SESSION_is_resumable(session_) != 1) return nullptr;
    // A resumed handshake shows no certificate, so its end is watched here.
    const X509* peer = SSL_SESSION_get0_peer(session_);
    if (peer == nullptr || X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0) return nullptr;
    return session_;
}

base::result<std::shared_ptr<const tls_context>> tls_contexts::of(const ports::tls_profile& profile, base::boot_time now) {
    const auto found = std::find_if(made_.begin(), made_.end(), [&](const entry& e) { return e.profile == profile; });
    if (found != made_.end()) {
        if (found->context || now - found->made < std::chrono::seconds{1}) return found->context;
        made_.erase(found);
    }
    if (made_.size() >= limit) made_.erase(made_.begin());
    auto context = tls_context::make(profile);
    made_.push_back({profile, context, now});
    return context;
}

}  // namespace outboxd::https
