#include "wire/idempotency_key.hpp"

#include <array>

namespace outboxd::wire {

namespace {

constexpr std::array<bool, 256> make_id_table() {
    std::array<bool, 256> table{};
    for (const char c : std::string_view{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"}) table[static_cast<unsigned char>(c)] = true;
    return table;
}
constexpr auto id_characters = make_id_table();

}  // namespace

bool is_event_id(std::string_view text) noexcept {
    if (text.empty() || text.size() > 128) return false;
    for (const char c : text) {
        if (!id_characters[static_cast<unsigned char>(c)]) return false;
    }
    return true;
}

void append_idempotency_key(std::string& out, std::string_view event_id, idempotency_key_format format) {
    if (format == idempotency_key_format::structured)
        append_sf_string(out, event_id);
    else
        out.append(event_id);
}

void append_sf_string(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    out += '"';
}

}  // namespace outboxd::wire
