// A settings document as a tree of texts with their lines, whether it was YAML or JSON. Floor 2, pure; yaml-cpp and simdjson stay in the .cpp files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load.hpp"

namespace outboxd::config {

inline constexpr std::size_t max_document_bytes = 4U << 20;
inline constexpr int max_document_depth = 64;
inline constexpr std::size_t max_problems = 100;

// Scalars keep their exact text: what it means is the key table's business, so that `no`, `0123` and `1e3` stay what was written.
struct node {
    enum class kind : std::uint8_t { null, scalar, list, map };
    kind type{kind::null};
    bool plain{false};  // a scalar without quotes: only such ones may be numbers and booleans
    int line{0};
    std::string text;
    std::vector<node> items;
    struct member;
    std::vector<member> members;  // in file order, duplicates included

    [[nodiscard]] bool is_null() const noexcept { return type == kind::null; }
    [[nodiscard]] bool is_scalar() const noexcept { return type == kind::scalar; }
    [[nodiscard]] bool is_list() const noexcept { return type == kind::list; }
    [[nodiscard]] bool is_map() const noexcept { return type == kind::map; }
};

// A key with its value.
struct node::member {
    node first;
    node second;
};

// `a list`, `a section`, `null`, `text`: for sentences about what stands in the wrong place.
[[nodiscard]] std::string_view describe(const node& n) noexcept;

// The one document in `yaml`; a null node where there is none. nullopt: `problems` has grown; no problem's text quotes the document. Refused: anchors, aliases, tags, a second
// document, tabs in the indentation, control characters, UTF-16, NUL, nesting below 64 levels. Accepted: a byte order mark, CRLF.
[[nodiscard]] std::optional<node> parse_yaml(std::string_view yaml, const std::string& file, std::vector<problem>& problems);

// The same tree from a JSON object. Error: invalid_input.
[[nodiscard]] base::result<node> parse_json_object(std::string_view json);

}  // namespace outboxd::config
