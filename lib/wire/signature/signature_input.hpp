// Everything that some scheme signs. Floor 1, pure: views into the request that is being built.
#pragma once

#include <cstdint>
#include <string_view>

namespace outboxd::wire {

struct signature_input {
    std::string_view method;     // POST
    std::string_view scheme;     // http | https
    std::string_view authority;  // as in Host
    std::string_view target;     // path and query
    std::string_view content_type;
    std::string_view id;         // webhook-id
    std::string_view timestamp;  // webhook-timestamp, whole seconds as text
    std::int64_t created{0};     // the same as a number
    std::string_view body;       // the bytes on the wire
    std::string_view nonce;      // random bytes; needed by adcp, used by rfc9421 when there are some
};

}  // namespace outboxd::wire
