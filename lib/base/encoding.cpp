#include "base/encoding.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace outboxd::base {

namespace {

constexpr std::string_view base64_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view base64url_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view hex_digits = "0123456789abcdef";
constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

std::uint32_t byte_at(std::string_view bytes, std::size_t i) noexcept {
    return static_cast<unsigned char>(bytes[i]);
}

void append_base64_text(std::string& out, std::string_view bytes, std::string_view alphabet, bool padded) {
    std::size_t i = 0;
    for (; i + 2 < bytes.size(); i += 3) {
        const std::uint32_t group = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2);
        const char text[4] = {alphabet[group >> 18], alphabet[group >> 12 & 63], alphabet[group >> 6 & 63], alphabet[group & 63]};
        out.append(text, 4);
    }
    const std::size_t rest = bytes.size() - i;
    if (rest == 0) return;
    const std::uint32_t group = byte_at(bytes, i) << 16 | (rest == 2 ? byte_at(bytes, i + 1) << 8 : 0);
    out += alphabet[group >> 18];
    out += alphabet[group >> 12 & 63];
    if (rest == 2) out += alphabet[group >> 6 & 63];
    if (padded) out.append(3 - rest, '=');
}

constexpr std::array<signed char, 256> reverse_table(std::string_view alphabet) {
    std::array<signed char, 256> table{};
    for (auto& entry : table) entry = -1;
    for (std::size_t i = 0; i < alphabet.size(); ++i) table[static_cast<unsigned char>(alphabet[i])] = static_cast<signed char>(i);
    return table;
}
constexpr auto base64_reverse = reverse_table(base64_alphabet);
constexpr auto base64url_reverse = reverse_table(base64url_alphabet);

// `text` without padding. nullopt: a character outside the alphabet, or a length that no encoder makes.
std::optional<std::string> decode_unpadded(std::string_view text, const std::array<signed char, 256>& reverse) {
    if (text.size() % 4 == 1) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 4 * 3 + 2);
    std::uint32_t group = 0;
    int bits = 0;
    for (const char c : text) {
        const int value = reverse[static_cast<unsigned char>(c)];
        if (value < 0) return std::nullopt;
        group = group << 6 | static_cast<std::uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out += static_cast<char>(group >> bits & 0xff);
    }
    return out;
}

std::size_t padding_of(std::string_view text) noexcept {
    std::size_t n = 0;
    while (n < 2 && n < text.size() && text[text.size() - 1 - n] == '=') ++n;
    return n;
}

error bad_base64(std::string_view name) {
    return make_error(errc::invalid_input, "not valid " + std::string(name));  // never the text: it may be a secret
}

// Length of the well-formed sequence that begins at `i` (Unicode 15, table 3-7), 0 when there is none.
std::size_t sequence_length(std::string_view bytes, std::size_t i) noexcept {
    const auto first = byte_at(bytes, i);
    if (first < 0x80) return 1;
    std::size_t length = 0;
    std::uint32_t low = 0x80;
    std::uint32_t high = 0xbf;
    if (first >= 0xc2 && first <= 0xdf) {
        length = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
        length = 3;
        if (first == 0xe0) low = 0xa0;   // no overlong form
        if (first == 0xed) high = 0x9f;  // no surrogate
    } else if (first >= 0xf0 && first <= 0xf4) {
        length = 4;
        if (first == 0xf0) low = 0x90;
        if (first == 0xf4) high = 0x8f;  // no more than U+10FFFF
    }
    if (length == 0 || bytes.size() - i < length) return 0;
    if (byte_at(bytes, i + 1) < low || byte_at(bytes, i + 1) > high) return 0;
    for (std::size_t k = 2; k < length; ++k) {
        if (byte_at(bytes, i + k) < 0x80 || byte_at(bytes, i + k) > 0xbf) return 0;
    }
    return length;
}

// True when the bytes from `i` to the end look like a character that somebody cut off.
bool cut_off(std::string_view bytes, std::size_t i) noexcept {
    const auto first = byte_at(bytes, i);
    const std::size_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    if (wanted == 0 || bytes.size() - i >= wanted) return false;
    for (std::size_t k = i + 1; k < bytes.size(); ++k) {
        if ((byte_at(bytes, k) & 0xc0) != 0x80) return false;
    }
    return true;
}

std::uint32_t code_point(std::string_view bytes, std::size_t i, std::size_t length) noexcept {
    if (length == 1) return byte_at(bytes, i);
    std::uint32_t value = byte_at(bytes, i) & (0x7fu >> length);
    for (std::size_t k = 1; k < length; ++k) value = value << 6 | (byte_at(bytes, i + k) & 0x3f);
    return value;
}

// Line separators and directional overrides can forge a log line though they are no control characters.
bool misleading(std::uint32_t c) noexcept {
    return (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

std::string escaped(std::uint32_t c) {
    std::string out = c > 0xff ? "\\u" : "\\x";
    for (int shift = c > 0xff ? 12 : 4; shift >= 0; shift -= 4) out += hex_digits[c >> shift & 15];
    return out;
}

enum class line_breaks { escape, keep };

std::string clean(std::string_view bytes, std::size_t max_bytes, line_breaks breaks) {
    std::string out;
    out.reserve(std::min(bytes.size(), max_bytes));
    for (std::size_t i = 0; i < bytes.size();) {
        const std::size_t length = sequence_length(bytes, i);
        std::string made;
        std::string_view piece;
        if (length == 0) {
            if (bytes.size() >= max_bytes && cut_off(bytes, i)) break;  // our own limit cut it: no fault of the text
            piece = replacement;
        } else {
            const auto c = code_point(bytes, i, length);
            const bool kept_break = breaks == line_breaks::keep && (c == '\n' || c == '\r' || c == '\t');
            const bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f) || (breaks == line_breaks::escape && misleading(c));
            if (control && !kept_break) made = escaped(c);
            piece = made.empty() ? bytes.substr(i, length) : std::string_view{made};
        }
        if (out.size() + piece.size() > max_bytes) break;
        out.append(piece);
        i += std::max<std::size_t>(length, 1);
    }
    return out;
}

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
    append_base64_text(out, bytes, base64_alphabet, true);
}

std::string base64_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    append_base64(out, bytes);
    return out;
}

result<std::string> base64_decode(std::string_view text) {
    if (text.size() % 4 != 0) return bad_base64("base64 (RFC 4648 section 4, with padding)");
    auto bytes = decode_unpadded(text.substr(0, text.size() - padding_of(text)), base64_reverse);
    if (!bytes) return bad_base64("base64 (RFC 4648 section 4, with padding)");
    return std::move(*bytes);
}

std::string base64url_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    append_base64_text(out, bytes, base64url_alphabet, false);
    return out;
}

result<std::string> base64url_decode(std::string_view text) {
    const std::size_t padding = padding_of(text);
    if (padding != 0 && text.size() % 4 != 0) return bad_base64("base64url (RFC 4648 section 5)");
    auto bytes = decode_unpadded(text.substr(0, text.size() - padding), base64url_reverse);
    if (!bytes) return bad_base64("base64url (RFC 4648 section 5)");
    return std::move(*bytes);
}

std::string hex_encode(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size() * 2);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        out += hex_digits[byte_at(bytes, i) >> 4];
        out += hex_digits[byte_at(bytes, i) & 15];
    }
    return out;
}

bool is_valid_utf8(std::string_view bytes) noexcept {
    for (std::size_t i = 0; i < bytes.size();) {
        const std::size_t length = sequence_length(bytes, i);
        if (length == 0) return false;
        i += length;
    }
    return true;
}

std::string printable(std::string_view bytes, std::size_t max_bytes) {
    return clean(bytes, max_bytes, line_breaks::escape);
}

std::string storable(std::string_view bytes, std::size_t max_bytes) {
    return clean(bytes, max_bytes, line_breaks::keep);
}

std::string json_escape(std::string_view utf8) {
    std::string out;
    out.reserve(utf8.size() + 8);
    for (std::size_t i = 0; i < utf8.size();) {
        const std::size_t length = sequence_length(utf8, i);
        const char c = utf8[i];
        if (length == 0) {
            out.append(replacement);  // JSON text is UTF-8; a stray byte must not make the document unreadable
        } else if (c == '"' || c == '\\') {
            out.append({'\\', c});
        } else if (c == '\n') {
            out.append("\\n");
        } else if (c == '\r') {
            out.append("\\r");
        } else if (c == '\t') {
            out.append("\\t");
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out.append("\\u00");
            out += hex_digits[byte_at(utf8, i) >> 4];
            out += hex_digits[byte_at(utf8, i) & 15];
        } else {
            out.append(utf8.substr(i, length));
        }
        i += std::max<std::size_t>(length, 1);
    }
    return out;
}

bool iequals(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (lower(a[i]) != lower(b[i])) return false;
    }
    return true;
}

std::string to_lower_ascii(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = lower(c);
    return out;
}

std::string percent_encode_header(std::string_view utf8) {
    constexpr std::string_view upper_hex = "0123456789ABCDEF";
    std::string out;
    out.reserve(utf8.size());
    for (std::size_t i = 0; i < utf8.size(); ++i) {
        const auto c = byte_at(utf8, i);
        if (c > 0x20 && c < 0x7f && c != '"' && c != '%') {
            out += utf8[i];
            continue;
        }
        out += '%';
        out += upper_hex[c >> 4];
        out += upper_hex[c & 15];
    }
    return out;
}

}  // namespace outboxd::base
