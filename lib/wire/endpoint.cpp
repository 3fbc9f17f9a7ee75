#include "wire/endpoint.hpp"

#include <array>

namespace outboxd::wire {

namespace {

template <class Enum, std::size_t N>
using names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr names<body_format, 4> format_names{{{body_format::raw, "raw"},
                                              {body_format::enriched, "enriched"},
                                              {body_format::cloudevents_binary, "cloudevents-binary"},
                                              {body_format::cloudevents_structured, "cloudevents-structured"}}};

constexpr names<signing_scheme, 7> scheme_names{{{signing_scheme::none, "none"},
                                                 {signing_scheme::standard_webhooks, "standard-webhooks"},
                                                 {signing_scheme::rfc9421, "rfc9421"},
                                                 {signing_scheme::adcp, "adcp"},
                                                 {signing_scheme::adcp_base64, "adcp-base64"},
                                                 {signing_scheme::github, "github"},
                                                 {signing_scheme::stripe, "stripe"}}};

template <class Table, class Enum>
std::string_view name_of(const Table& table, Enum value) noexcept {
    for (const auto& [entry, name] : table) {
        if (entry == value) return name;
    }
    return {};
}

template <class Enum, std::size_t N>
std::optional<Enum> value_of(const names<Enum, N>& table, std::string_view text) noexcept {
    for (const auto& [entry, name] : table) {
        if (name == text) return entry;
    }
    return std::nullopt;
}

}  // namespace

std::string_view to_string(body_format f) noexcept {
    return name_of(format_names, f);
}
std::optional<body_format> parse_body_format(std::string_view name) noexcept {
    return value_of(format_names, name);
}
std::string_view to_string(signing_scheme s) noexcept {
    return name_of(scheme_names, s);
}
std::optional<signing_scheme> parse_signing_scheme(std::string_view name) noexcept {
    return value_of(scheme_names, name);
}

bool signs_with_text(signing_scheme s) noexcept {
    return s == signing_scheme::github || s == signing_scheme::stripe;
}

}  // namespace outboxd::wire
