#include <simdjson.h>

#include <array>
#include <charconv>

#include "config/document.hpp"

namespace outboxd::config {
namespace {

namespace dom = simdjson::dom;

template <class T>
std::string number_text(T value) {
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

node scalar(std::string text, bool plain) {
    node n;
    n.type = node::kind::scalar;
    n.plain = plain;
    n.text = std::move(text);
    return n;
}

// Depth is bounded by the parser's own limit.
node convert(const dom::element& element) {
    node n;
    switch (element.type()) {
        case dom::element_type::ARRAY:
            n.type = node::kind::list;
            for (const dom::element item : dom::array(element)) n.items.push_back(convert(item));
            return n;
        case dom::element_type::OBJECT:
            n.type = node::kind::map;
            for (const auto& member : dom::object(element)) n.members.push_back({scalar(std::string(member.key), false), convert(member.value)});
            return n;
        case dom::element_type::STRING: return scalar(std::string(std::string_view(element)), false);
        case dom::element_type::INT64: return scalar(number_text(std::int64_t(element)), true);
        case dom::element_type::UINT64: return scalar(number_text(std::uint64_t(element)), true);
        case dom::element_type::DOUBLE: return scalar(number_text(double(element)), true);
        case dom::element_type::BOOL: return scalar(bool(element) ? "true" : "false", true);
        case dom::element_type::NULL_VALUE: return n;
    }
    return n;
}

}  // namespace

base::result<node> parse_json_object(std::string_view json) {
    if (json.size() > max_document_bytes) return base::make_error(base::errc::invalid_input, "larger than 4 MiB");
    dom::parser parser(max_document_bytes);
    if (parser.allocate(std::max<std::size_t>(json.size(), 64), max_document_depth) != simdjson::SUCCESS) return base::make_error(base::errc::internal, "no memory for a JSON document");
    dom::element root;
    if (parser.parse(simdjson::padded_string(json)).get(root) != simdjson::SUCCESS) return base::make_error(base::errc::invalid_input, "not valid JSON");
    if (!root.is_object()) return base::make_error(base::errc::invalid_input, "must be a JSON object");
    return convert(root);
}

}  // namespace outboxd::config
