#include "wire/signature/stripe.hpp"

#include "base/encoding.hpp"

namespace outboxd::wire {

void append_stripe(std::string& out, const std::vector<signing_key>& keys, std::string_view timestamp, std::string_view body) {
    std::array<char, 64> room;
    out.append("t=").append(timestamp);
    for (const auto& key : keys) out.append(",v1=").append(base::hex_encode(key.sign_into(room, {timestamp, ".", body})));
}

}  // namespace outboxd::wire
