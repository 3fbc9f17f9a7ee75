#include "wire/host_name.hpp"

#include <algorithm>

namespace outboxd::wire {

namespace {

bool digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
bool letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool hex_digit(char c) noexcept {
    return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_label(std::string_view label) noexcept {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') return false;
    return std::all_of(label.begin(), label.end(), [](char c) { return digit(c) || letter(c) || c == '-' || c == '_'; });
}

}  // namespace

bool is_host_name(std::string_view text) noexcept {
    if (text.empty() || text.size() > 253) return false;
    while (true) {
        const auto dot = text.find('.');
        if (!is_label(text.substr(0, dot))) return false;
        if (dot == std::string_view::npos) return true;
        text.remove_prefix(dot + 1);
    }
}

bool ends_in_number(std::string_view text) noexcept {
    if (const auto dot = text.rfind('.'); dot != std::string_view::npos) text.remove_prefix(dot + 1);
    if (text.empty()) return false;
    if (std::all_of(text.begin(), text.end(), digit)) return true;
    if (text.size() < 2 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) return false;
    return std::all_of(text.begin() + 2, text.end(), hex_digit);
}

}  // namespace outboxd::wire
