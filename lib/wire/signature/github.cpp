#include "wire/signature/github.hpp"

#include "base/encoding.hpp"

namespace outboxd::wire {

void append_github(std::string& out, const signing_key& key, std::string_view body) {
    std::array<char, 64> room;
    out.append("sha256=").append(base::hex_encode(key.sign_into(room, {body})));
}

}  // namespace outboxd::wire
