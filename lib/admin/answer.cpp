#include "admin/answer.hpp"

#include <optional>

#include "admin/json_writer.hpp"
#include "base/encoding.hpp"

namespace outboxd::admin {
namespace {

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i] == '+' && plus_is_space ? ' ' : text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    // NUL would cut a parameter of a statement short, and other bytes would be refused by the database.
    if (out.find('\0') != out.npos || !base::is_valid_utf8(out)) return std::nullopt;
    return out;
}

int status_for(base::errc code) {
    switch (code) {
        case base::errc::not_found: return 404;
        case base::errc::invalid_input: return 400;
        case base::errc::refused: return 409;
        case base::errc::database_unreachable:
        case base::errc::database_read_only:
        case base::errc::database_schema:
        case base::errc::database_denied:
        case base::errc::database_busy:
        case base::errc::cancelled:
        case base::errc::timeout: return 503;
        default: return 500;
    }
}

}  // namespace

answer json_answer(std::string body) {
    answer a;
    a.body = std::move(body);
    a.body += '\n';
    return a;
}

answer text_answer(int status, std::string text) {
    return {status, "text/plain; charset=utf-8", std::move(text), {}};
}

answer error_answer(int status, std::string_view text) {
    json_writer w;
    w.begin_object().member("error", base::printable(text, 500)).end_object();
    auto a = json_answer(w.take());
    a.status = status;
    return a;
}

answer error_answer(const base::error& e) {
    return error_answer(status_for(e.code), e.text);
}

base::result<question> parse_target(std::string_view target) {
    const auto broken = [] { return base::make_error(base::errc::invalid_input, "the request target is not a valid path and query"); };
    const auto mark = target.find('?');
    question q;
    // Slashes inside a segment stay escaped: no path of ours has any.
    const auto path = decoded(target.substr(0, mark), false);
    if (!path || !path->starts_with('/')) return broken();
    q.path = *path;
    std::string_view rest = mark == target.npos ? std::string_view{} : target.substr(mark + 1);
    while (!rest.empty()) {
        const auto pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(pair.size() == rest.size() ? rest.size() : pair.size() + 1);
        if (pair.empty()) continue;
        const auto equals = pair.find('=');
        const auto name = decoded(pair.substr(0, equals), true);
        const auto value = decoded(equals == pair.npos ? std::string_view{} : pair.substr(equals + 1), true);
        if (!name || !value) return broken();
        if (!q.query.emplace(*name, *value).second)
            return base::make_error(base::errc::invalid_input, "the query names '" + base::printable(*name, 50) + "' twice");
    }
    return q;
}

}  // namespace outboxd::admin
