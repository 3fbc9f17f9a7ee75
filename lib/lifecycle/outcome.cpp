#include "lifecycle/outcome.hpp"

namespace outboxd::lifecycle {

std::string_view to_string(outcome o) noexcept {
    switch (o) {
        case outcome::published: return "published";
        case outcome::retried: return "retried";
        case outcome::failed: return "failed";
        case outcome::expired: return "expired";
        case outcome::cancelled: return "cancelled";
        case outcome::lost: return "lost";
        case outcome::released: return "released";
    }
    return "failed";
}

std::string_view to_string(error_class c) noexcept {
    switch (c) {
        case error_class::none: return "";
        case error_class::dns: return "dns";
        case error_class::connect: return "connect";
        case error_class::tls: return "tls";
        case error_class::timeout: return "timeout";
        case error_class::redirect: return "redirect";
        case error_class::http: return "http";
        case error_class::blocked: return "blocked";
        case error_class::proxy: return "proxy";
        case error_class::protocol: return "protocol";
        case error_class::payload: return "payload";
        case error_class::header: return "header";
        case error_class::url: return "url";
        case error_class::tenant: return "tenant";
        case error_class::local: return "local";
        case error_class::signing: return "signing";
    }
    return "local";
}

}  // namespace outboxd::lifecycle
