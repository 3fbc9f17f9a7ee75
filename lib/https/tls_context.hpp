// TLS contexts by profile, and the sessions that a route may resume. Floor 4, used inside the room only; OpenSSL stays in the .cpp files.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"
#include "ports/https_sender.hpp"

struct ssl_ctx_st;
struct ssl_session_st;

namespace outboxd::https {

// One SSL_CTX: certificates to trust, our own certificate, versions, ALPN `http/1.1`.
class tls_context {
public:
    explicit tls_context(ssl_ctx_st* context, const ports::tls_profile& profile) : context_(context), profile_(profile) {}
    ~tls_context();
    tls_context(const tls_context&) = delete;
    tls_context& operator=(const tls_context&) = delete;
    // Error: bad_config, naming the key, the file and the reason.
    [[nodiscard]] static base::result<std::shared_ptr<const tls_context>> make(const ports::tls_profile& profile);
    [[nodiscard]] ssl_ctx_st* native() const noexcept { return context_; }
    [[nodiscard]] const ports::tls_profile& profile() const noexcept { return profile_; }

private:
    ssl_ctx_st* context_;
    ports::tls_profile profile_;
};

// The last session of one route. A route is one host, port and profile, so that a session never serves another one.
class session_store {
public:
    session_store() = default;
    ~session_store() { clear(); }
    session_store(const session_store&) = delete;
    session_store& operator=(const session_store&) = delete;
    void keep(ssl_session_st* session) noexcept;  // takes it over
    // To offer in a handshake; null when there is none, or the certificate that it rests on has run out.
    [[nodiscard]] ssl_session_st* usable() const;
    void clear() noexcept;

private:
    ssl_session_st* session_{nullptr};
};

// Equal profiles share one context until forget(): then files are read again. A profile that cannot be used is looked at again after a second.
class tls_contexts {
public:
    [[nodiscard]] base::result<std::shared_ptr<const tls_context>> of(const ports::tls_profile& profile, base::boot_time now);
    void forget() noexcept { made_.clear(); }

private:
    struct entry {
        ports::tls_profile profile;
        base::result<std::shared_ptr<const tls_context>> context;
        base::boot_time made;
    };
    static constexpr std::size_t limit = 1024;
    std::vector<entry> made_;
};

}  // namespace outboxd::https
