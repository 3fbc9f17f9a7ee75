#include "https/tls_session.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "https/certificate_text.hpp"

namespace outboxd::https {

namespace {

int session_slot() {
    static const int slot = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return slot;
}

}  // namespace

int tls_session::bio_write(BIO* bio, const char* bytes, int size) {
    auto& self = *static_cast<tls_session*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const ssize_t sent = ::send(self.socket_, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<int>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        BIO_set_retry_write(bio);
    else
        self.send_error_ = errno;
    return -1;
}

int tls_session::bio_read(BIO* bio, char* out, int size) {
    auto& self = *static_cast<tls_session*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (self.input_.empty()) {
        BIO_set_retry_read(bio);
        return -1;
    }
    const std::size_t taken = std::min(self.input_.size(), static_cast<std::size_t>(size));
    std::memcpy(out, self.input_.data(), taken);
    self.input_.remove_prefix(taken);
    return static_cast<int>(taken);
}

long tls_session::bio_control(BIO*, int command, long, void*) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

namespace {
using write_function = int (*)(BIO*, const char*, int);
using read_function = int (*)(BIO*, char*, int);
using control_function = long (*)(BIO*, int, long, void*);
BIO_METHOD* socket_method(write_function write, read_function read, control_function control) {
    static BIO_METHOD* const method = [&] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "outboxd connection");
        BIO_meth_set_write(made, write);
        BIO_meth_set_read(made, read);
        BIO_meth_set_ctrl(made, control);
        return made;
    }();
    return method;
}
}  // namespace

void tls_session::prepare(SSL_CTX* context, bool verify) {
    SSL_CTX_set_verify(context, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, verify ? &tls_session::on_verify : nullptr);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, &tls_session::on_session);
}

tls_session::tls_session(int socket, std::shared_ptr<const tls_context> context, const std::string& host, bool host_is_address,
                         std::shared_ptr<session_store> sessions)
    : socket_(socket), context_(std::move(context)), sessions_(std::move(sessions)), host_(host) {
    ERR_clear_error();
    ssl_ = SSL_new(context_->native());
    BIO* bio = ssl_ == nullptr ? nullptr : BIO_new(socket_method(&tls_session::bio_write, &tls_session::bio_read, &tls_session::bio_control));
    if (bio == nullptr) {
        SSL_free(ssl_);
        ssl_ = nullptr;
        return;
    }
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_ex_data(ssl_, session_slot(), this);
    SSL_set_connect_state(ssl_);
    // RFC 6125: only subject alternative names count, and a wildcard stands for one whole label.
    X509_VERIFY_PARAM* param = SSL_get0_param(ssl_);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (host_is_address) {
        X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str());
    } else {
        X509_VERIFY_PARAM_set1_host(param, host.c_str(), host.size());
        SSL_set_tlsext_host_name(ssl_, host.c_str());
    }
    if (SSL_SESSION* session = sessions_->usable()) SSL_set_session(ssl_, session);
}

tls_session::~tls_session() {
    SSL_free(ssl_);
}

int tls_session::on_session(SSL* ssl, SSL_SESSION* session) {
    auto* self = static_cast<tls_session*>(SSL_get_ex_data(ssl, session_slot()));
    // Kept only when this side has verified: a session carries its verdict on.
    if (self == nullptr || self->broken_) return 0;
    self->sessions_->keep(session);
    return 1;
}

int tls_session::on_verify(int ok, X509_STORE_CTX* store) {
    if (ok == 1) return 1;
    auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* self = static_cast<tls_session*>(SSL_get_ex_data(ssl, session_slot()));
    if (self != nullptr && self->verify_fault_.empty())
        self->verify_fault_ =
            describe_verification(X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_current_cert(store), X509_STORE_CTX_get0_cert(store), self->host_);
    return 0;
}

bool tls_session::check_pin() {
    const std::string& pin = context_->profile().pinned_spki;
    if (pin.empty()) return true;
    X509* peer = SSL_get0_peer_certificate(ssl_);
    if (peer != nullptr && spki_sha256(peer) == pin) return true;
    fault_ = peer == nullptr ? "no certificate was shown, but a public key is pinned"
                             : describe_subject(peer) + " has another public key (sha256 " + spki_sha256(peer) + ") than the pinned one";
    return false;
}

tls_session::step tls_session::handshake() {
    ERR_clear_error();
    const step outcome = after(SSL_do_handshake(ssl_));
    if (outcome == step::done) {
        if (!check_pin()) {
            broken_ = true;
            sessions_->clear();
            return step::failed;
        }
        shaken_ = true;
    }
    if (outcome == step::failed) sessions_->clear();
    return outcome;
}

tls_session::step tls_session::read(char* out, std::size_t capacity, std::size_t& got) {
    if (ERR_peek_error() != 0) ERR_clear_error();  // left behind by another part of the process
    return after(SSL_read_ex(ssl_, out, capacity, &got));
}

bool tls_session::drained() const noexcept {
    return input_.empty() && SSL_pending(ssl_) == 0;
}

tls_session::step tls_session::write(const char* bytes, std::size_t size, std::size_t& written) {
    if (ERR_peek_error() != 0) ERR_clear_error();
    return after(SSL_write_ex(ssl_, bytes, size, &written));
}

// The want flags are asked first: they are right even when another part of the process left something in the error queue.
tls_session::step tls_session::after(int outcome) {
    if (outcome > 0) return step::done;
    BIO* bio = SSL_get_rbio(ssl_);
    if (SSL_want_read(ssl_) && BIO_should_read(bio)) return step::want_read;
    if (SSL_want_write(ssl_) && BIO_should_write(bio)) return step::want_write;
    if ((SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0 && ERR_peek_last_error() == 0) return step::closed;
    broken_ = true;
    fault_ = !verify_fault_.empty() ? verify_fault_ : describe_tls_error(ERR_peek_last_error());
    if (verify_fault_.empty() && send_error_ != 0 && ERR_peek_last_error() == 0) fault_ = "the connection was reset by the other side";
    ERR_clear_error();
    return step::failed;
}

void tls_session::goodbye() noexcept {
    if (ssl_ == nullptr || !shaken_ || broken_) return;
    SSL_shutdown(ssl_);
    ERR_clear_error();
}

}  // namespace outboxd::https
