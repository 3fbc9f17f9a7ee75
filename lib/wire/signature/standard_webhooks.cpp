#include "wire/signature/standard_webhooks.hpp"

#include "base/encoding.hpp"

namespace outboxd::wire {

void append_standard_webhooks(std::string& out, const std::vector<signing_key>& keys, std::string_view id, std::string_view timestamp, std::string_view body) {
    std::array<char, 64> room;
    bool first = true;
    for (const auto& key : keys) {
        if (!first) out += ' ';
        first = false;
        out += key.type() == signing_key::kind::hmac_sha256 ? "v1," : "v1a,";
        base::append_base64(out, key.sign_into(room, {id, ".", timestamp, ".", body}));
    }
}

}  // namespace outboxd::wire
