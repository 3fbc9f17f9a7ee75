// Reads the dictionaries of RFC 9421's two fields, as far as signatures use them (RFC 8941 3.2). Floor 1, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outboxd::wire {

struct signature_entry {
    std::string label;
    std::vector<std::string> components;
    std::string params;  // the member's text: `("@method" ...);created=...`, as it is signed
    std::optional<std::int64_t> created;
    std::optional<std::int64_t> expires;
    std::string alg;
    std::string key_id;
    std::string tag;
};

// nullopt: not readable, or a component with parameters (;sf ;key ;req), which nobody here signs.
[[nodiscard]] std::optional<std::vector<signature_entry>> read_signature_input(std::string_view field);
// Signature bytes of one label; base64 or unpadded base64url between the colons. nullopt: missing or not readable.
[[nodiscard]] std::optional<std::string> read_signature(std::string_view field, std::string_view label);

}  // namespace outboxd::wire
