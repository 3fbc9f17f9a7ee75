#include "wire/headers.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>

#include "base/encoding.hpp"

namespace outboxd::wire {

namespace {

constexpr std::size_t max_name = 128;
constexpr std::size_t max_value = 8 * 1024;
constexpr std::size_t max_headers = 64;
constexpr std::size_t max_total = 16 * 1024;

// Lower case. Framing and hop-by-hop fields (RFC 9110 7.6.1), and every field that outboxd writes itself in some format or signing scheme.
constexpr std::array reserved_names{std::string_view{"host"},
                                    std::string_view{"user-agent"},
                                    std::string_view{"content-type"},
                                    std::string_view{"content-length"},
                                    std::string_view{"transfer-encoding"},
                                    std::string_view{"connection"},
                                    std::string_view{"keep-alive"},
                                    std::string_view{"te"},
                                    std::string_view{"trailer"},
                                    std::string_view{"upgrade"},
                                    std::string_view{"expect"},
                                    std::string_view{"http2-settings"},
                                    std::string_view{"webhook-id"},
                                    std::string_view{"webhook-timestamp"},
                                    std::string_view{"webhook-signature"},
                                    std::string_view{"idempotency-key"},
                                    std::string_view{"outbox-event-type"},
                                    std::string_view{"outbox-attempt"},
                                    std::string_view{"outbox-sequence"},
                                    std::string_view{"traceparent"},
                                    std::string_view{"tracestate"},
                                    std::string_view{"content-digest"},
                                    std::string_view{"signature"},
                                    std::string_view{"signature-input"},
                                    std::string_view{"x-hub-signature"},
                                    std::string_view{"x-hub-signature-256"},
                                    std::string_view{"stripe-signature"},
                                    std::string_view{"ce-specversion"},
                                    std::string_view{"ce-id"},
                                    std::string_view{"ce-source"},
                                    std::string_view{"ce-type"},
                                    std::string_view{"ce-time"},
                                    std::string_view{"ce-subject"},
                                    std::string_view{"ce-datacontenttype"},
                                    std::string_view{"ce-sequence"},
                                    std::string_view{"ce-tenantid"},
                                    std::string_view{"ce-traceparent"},
                                    std::string_view{"ce-tracestate"}};

bool reserved(std::string_view name) {
    const auto same = [name](std::string_view r) { return base::iequals(r, name); };
    if (name.size() > 6 && base::iequals(name.substr(0, 6), "proxy-")) return true;
    return std::any_of(reserved_names.begin(), reserved_names.end(), same);
}

base::error refused(std::string_view name, std::string_view why) {
    return base::make_error(base::errc::invalid_input, "header '" + base::printable(name, 64) + "' " + std::string(why));
}

std::string_view trimmed(std::string_view value) {
    const auto first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return value.substr(first, value.find_last_not_of(" \t") - first + 1);
}

bool is_hex_lower(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool all_zero(std::string_view text) {
    return text.find_first_not_of('0') == std::string_view::npos;
}

// `key=value` of RFC 9110 5.6.6, from the front of `text`; false leaves it undefined.
bool take_parameter(std::string_view& text) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || !is_token(text.substr(0, equals))) return false;
    text.remove_prefix(equals + 1);
    if (!text.starts_with('"')) {
        const auto end = std::min(text.find_first_of("; \t"), text.size());
        if (!is_token(text.substr(0, end))) return false;
        text.remove_prefix(end);
        return true;
    }
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            text.remove_prefix(i + 1);
            return true;
        }
    }
    return false;
}

bool is_media_type(std::string_view value) {
    const auto slash = value.find('/');
    if (slash == std::string_view::npos || !is_token(value.substr(0, slash))) return false;
    value.remove_prefix(slash + 1);
    const auto end = std::min(value.find_first_of("; \t"), value.size());
    if (!is_token(value.substr(0, end))) return false;
    value.remove_prefix(end);
    while (!(value = trimmed(value)).empty()) {
        if (!value.starts_with(';')) return false;
        value.remove_prefix(1);
        value = trimmed(value);
        if (!value.empty() && !value.starts_with(';') && !take_parameter(value)) return false;
    }
    return true;
}

bool is_tracestate_key(std::string_view key) {
    if (key.empty() || key.size() > 256) return false;
    const auto ok = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' || c == '/' || c == '@'; };
    return ((key[0] >= 'a' && key[0] <= 'z') || (key[0] >= '0' && key[0] <= '9')) && std::all_of(key.begin(), key.end(), ok);
}

bool is_tracestate_member(std::string_view member) {
    const auto equals = member.find('=');
    if (equals == std::string_view::npos || !is_tracestate_key(member.substr(0, equals))) return false;
    const auto value = member.substr(equals + 1);
    const auto ok = [](char c) { return c >= 0x20 && c <= 0x7e && c != ',' && c != '='; };
    return !value.empty() && value.size() <= 256 && std::all_of(value.begin(), value.end(), ok);
}

}  // namespace

bool is_token(std::string_view text) noexcept {
    const auto ok = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
    };
    return !text.empty() && std::all_of(text.begin(), text.end(), ok);
}

bool is_field_value(std::string_view text) noexcept {
    return std::all_of(text.begin(), text.end(), [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); });
}

base::result<void> check_own_header(std::string_view name, std::string_view value) {
    if (name.empty()) return base::make_error(base::errc::invalid_input, "a header has an empty name");
    if (name.size() > max_name) return refused(name, "has a name longer than 128 bytes");
    if (!is_token(name)) return refused(name, "has an invalid name: letters, digits and !#$%&'*+-.^_`|~ are allowed");
    if (reserved(name)) return refused(name, "is set by outboxd itself or belongs to the connection and cannot be replaced");
    if (value.size() > max_value) return refused(name, "has a value longer than 8 KiB");
    if (!is_field_value(value)) return refused(name, "has a value with a control character");
    return {};
}

base::result<void> check_own_headers(const header_list& headers) {
    if (headers.size() > max_headers) return base::make_error(base::errc::invalid_input, "more than 64 headers");
    std::size_t total = 0;
    for (std::size_t i = 0; i < headers.size(); ++i) {
        const auto& [name, value] = headers[i];
        if (const auto checked = check_own_header(name, value); !checked) return checked.error();
        const auto same = [&own = headers[i].first](const auto& other) { return base::iequals(other.first, own); };
        if (std::any_of(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(i), same)) return refused(name, "is given twice");
        total += name.size() + value.size();
    }
    if (total > max_total) return base::make_error(base::errc::invalid_input, "the headers are longer than 16 KiB together");
    return {};
}

base::result<header_list> parse_event_headers(std::string_view json_object) {
    static thread_local simdjson::dom::parser parser;
    simdjson::dom::object object;
    if (parser.parse(json_object.data(), json_object.size()).get(object) != simdjson::SUCCESS)
        return base::make_error(base::errc::invalid_input, "the event's headers are not a JSON object of strings");
    header_list out;
    out.reserve(std::min(object.size(), max_headers + 1));
    for (const auto& [name, value] : object) {
        std::string_view text;
        if (value.get(text) != simdjson::SUCCESS) return refused(name, "of the event is not a string");
        if (out.size() > max_headers) break;  // check_own_headers says so
        out.emplace_back(name, trimmed(text));
    }
    if (const auto checked = check_own_headers(out); !checked) return checked.error();
    return out;
}

base::result<void> check_content_type(std::string_view value) {
    if (value.size() <= 255 && is_media_type(value)) return {};
    return base::make_error(base::errc::invalid_input, "the content type is no media type such as application/json; charset=utf-8");
}

base::result<void> check_traceparent(std::string_view value) {
    const auto fault = base::make_error(base::errc::invalid_input, "traceparent is not valid by W3C Trace Context");
    if (value.size() < 55 || value.size() > 512 || value[2] != '-' || value[35] != '-' || value[52] != '-') return fault;
    const auto version = value.substr(0, 2);
    const auto trace = value.substr(3, 32);
    const auto parent = value.substr(36, 16);
    if (!is_hex_lower(version) || version == "ff" || !is_hex_lower(trace) || all_zero(trace) || !is_hex_lower(parent) || all_zero(parent)) return fault;
    if (!is_hex_lower(value.substr(53, 2))) return fault;
    // Version 00 ends here; a later one may go on after a hyphen.
    if (value.size() == 55) return {};
    if (version == "00" || value[55] != '-' || !is_field_value(value)) return fault;
    return {};
}

base::result<void> check_tracestate(std::string_view value) {
    const auto fault = base::make_error(base::errc::invalid_input, "tracestate is not valid by W3C Trace Context");
    if (value.size() > max_value) return fault;
    int members = 0;
    while (true) {
        const auto comma = value.find(',');
        const auto member = trimmed(value.substr(0, comma));
        if (!member.empty() && (!is_tracestate_member(member) || ++members > 32)) return fault;
        if (comma == std::string_view::npos) return {};
        value.remove_prefix(comma + 1);
    }
}

}  // namespace outboxd::wire
