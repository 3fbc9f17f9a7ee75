#include "postgres/sqlstate.hpp"

#include <algorithm>
#include <array>

namespace outboxd::postgres {

namespace {

struct rule {
    std::string_view prefix;  // the longest match stands first
    base::errc code;
    bool ends;
    std::string_view words;
};

using base::errc;

constexpr std::array rules{
    rule{"OB001", errc::lease_lost, false, ""},
    rule{"08", errc::database_unreachable, true, "the connection was refused or broke"},
    rule{"25006", errc::database_read_only, true, "the server is read-only"},
    rule{"25P03", errc::database_unreachable, true, ""},
    rule{"28P01", errc::database_denied, true, "the password was not accepted"},
    rule{"28", errc::database_denied, true, "the server does not let this user in"},
    rule{"3D000", errc::database_schema, true, "the database does not exist"},
    rule{"3F000", errc::database_schema, false, ""},
    rule{"40", errc::database_busy, false, ""},
    rule{"42501", errc::database_denied, false, "the role lacks a right"},
    rule{"42703", errc::database_schema, false, ""},
    rule{"42704", errc::database_schema, false, ""},
    rule{"42725", errc::database_schema, false, ""},
    rule{"42804", errc::database_schema, false, ""},
    rule{"42809", errc::database_schema, false, ""},
    rule{"42846", errc::database_schema, false, ""},
    rule{"42883", errc::database_schema, false, ""},
    rule{"42P01", errc::database_schema, false, ""},
    rule{"53300", errc::database_busy, true, "the server has too many connections"},
    rule{"53", errc::database_busy, false, "the server is out of a resource"},
    rule{"55006", errc::database_busy, false, ""},
    rule{"55P03", errc::database_busy, false, ""},
    rule{"57014", errc::database_busy, false, ""},
    rule{"57P03", errc::database_unreachable, true, "the server is starting up, recovering or shutting down"},
    rule{"57P04", errc::database_schema, true, "the database was dropped"},
    rule{"57P", errc::database_unreachable, true, "the server ended the session"},
};

const rule* find(std::string_view sqlstate) noexcept {
    const auto* hit = std::find_if(rules.begin(), rules.end(), [&](const rule& r) { return sqlstate.starts_with(r.prefix); });
    return hit == rules.end() ? nullptr : hit;
}

bool is_code(std::string_view text) noexcept {
    return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); }) &&
           std::any_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

base::errc classify(std::string_view sqlstate) noexcept {
    const auto* r = find(sqlstate);
    return r == nullptr ? errc::database_error : r->code;
}

bool ends_session(std::string_view sqlstate) noexcept {
    const auto* r = find(sqlstate);
    return r != nullptr && r->ends;
}

std::string_view explain(std::string_view sqlstate) noexcept {
    const auto* r = find(sqlstate);
    return r == nullptr ? std::string_view{} : r->words;
}

std::string_view find_sqlstate(std::string_view text) noexcept {
    for (auto at = text.find(":  "); at != std::string_view::npos; at = text.find(":  ", at + 1)) {
        const auto rest = text.substr(at + 3);
        if (rest.size() > 5 && rest[5] == ':' && is_code(rest.substr(0, 5))) return rest.substr(0, 5);
    }
    return {};
}

}  // namespace outboxd::postgres
