// TLS over one socket: OpenSSL between the connection's bytes and the wire. Floor 4, used inside the room only.
//
// What is written goes to the socket at once (send(2), MSG_NOSIGNAL); what was received is handed in by the connection, so that one read per answer is enough
// and a connection needs no buffers of its own while it is idle. No byte of a request can leave before handshake() said `done`: chain, name, dates and pin are
// checked in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "https/tls_context.hpp"

struct ssl_st;
struct bio_st;
struct ssl_ctx_st;
struct ssl_session_st;
struct x509_store_ctx_st;
struct x509_st;

namespace outboxd::https {

class tls_session {
public:
    enum class step : std::uint8_t { done, want_read, want_write, closed, failed };

    // `host` as in the URL; an address is checked against IP SANs and sends no SNI. `sessions` outlives the connection's handshake and its answers.
    tls_session(int socket, std::shared_ptr<const tls_context> context, const std::string& host, bool host_is_address, std::shared_ptr<session_store> sessions);
    ~tls_session();
    tls_session(const tls_session&) = delete;
    tls_session& operator=(const tls_session&) = delete;

    [[nodiscard]] bool usable() const noexcept { return ssl_ != nullptr; }
    step handshake();
    // Ciphertext received; must be taken whole by read() or handshake() (until want_read) before the next.
    void give(std::string_view cipher) noexcept { input_ = cipher; }
    step read(char* out, std::size_t capacity, std::size_t& got);
    // Nothing given is left: the next read() would want more. Saves a call per answer.
    [[nodiscard]] bool drained() const noexcept;
    step write(const char* bytes, std::size_t size, std::size_t& written);
    // close_notify, if the socket takes it at once. Nobody waits for an answer to it.
    void goodbye() noexcept;
    // The sentence of the last `failed`, without the host: `certificate "CN=a" expired on ...`.
    [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
    // errno of the last failed send(2); 0: none.
    [[nodiscard]] int send_error() const noexcept { return send_error_; }

    // Once per context: verification with our texts, session callback.
    static void prepare(ssl_ctx_st* context, bool verify);

private:
    static int on_verify(int ok, x509_store_ctx_st* store);
    static int on_session(ssl_st* ssl, ssl_session_st* session);
    static int bio_write(bio_st* bio, const char* bytes, int size);
    static int bio_read(bio_st* bio, char* out, int size);
    static long bio_control(bio_st* bio, int command, long number, void* pointer);
    step after(int outcome);
    bool check_pin();

    int socket_;
    std::shared_ptr<const tls_context> context_;
    std::shared_ptr<session_store> sessions_;
    std::string host_;
    ssl_st* ssl_{nullptr};
    std::string_view input_;
    std::string fault_;
    std::string verify_fault_;
    int send_error_{0};
    bool shaken_{false};
    bool broken_{false};
};

}  // namespace outboxd::https
