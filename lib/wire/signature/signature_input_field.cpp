#include "wire/signature/signature_input_field.hpp"

#include <algorithm>

#include "base/encoding.hpp"

namespace outboxd::wire {

namespace {

// Walks over a structured field. A failed read leaves `good` false for ever.
struct reader {
    std::string_view text;
    bool good{true};

    void skip_space() {
        while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    }
    bool at(char c) const { return !text.empty() && text.front() == c; }
    void expect(char c) {
        if (!at(c))
            good = false;
        else
            text.remove_prefix(1);
    }
    // A key or a bare number or token: whatever stands up to the next delimiter.
    std::string_view word() {
        const auto end = std::min(text.find_first_of("=;,() \t\""), text.size());
        const auto out = text.substr(0, end);
        if (out.empty()) good = false;
        text.remove_prefix(end);
        return out;
    }
    std::string quoted() {
        std::string out;
        expect('"');
        while (good && !at('"')) {
            if (at('\\')) text.remove_prefix(1);
            if (text.empty()) break;
            out += text.front();
            text.remove_prefix(1);
        }
        expect('"');
        return out;
    }
};

std::optional<std::int64_t> number(std::string_view text) {
    if (text.empty() || text.size() > 15) return std::nullopt;
    std::int64_t value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return std::nullopt;
        value = value * 10 + (c - '0');
    }
    return value;
}

void read_components(reader& r, signature_entry& entry) {
    r.expect('(');
    for (r.skip_space(); r.good && !r.at(')'); r.skip_space()) {
        entry.components.push_back(r.quoted());
        if (!r.at(' ') && !r.at(')')) r.good = false;  // a parameter of the component
    }
    r.expect(')');
}

void read_parameters(reader& r, signature_entry& entry) {
    while (r.good && r.at(';')) {
        r.expect(';');
        r.skip_space();
        const auto name = r.word();
        if (!r.at('=')) continue;
        r.expect('=');
        if (r.at('"')) {
            const auto value = r.quoted();
            if (name == "alg") entry.alg = value;
            if (name == "keyid") entry.key_id = value;
            if (name == "tag") entry.tag = value;
        } else {
            const auto value = number(r.word());
            if (name == "created") entry.created = value;
            if (name == "expires") entry.expires = value;
        }
    }
}

}  // namespace

std::optional<std::vector<signature_entry>> read_signature_input(std::string_view field) {
    std::vector<signature_entry> out;
    reader r{field};
    for (r.skip_space(); r.good && !r.text.empty(); r.skip_space()) {
        if (!out.empty()) {
            r.expect(',');
            r.skip_space();
        }
        signature_entry entry;
        entry.label = r.word();
        r.expect('=');
        const auto start = r.text;
        read_components(r, entry);
        read_parameters(r, entry);
        entry.params = start.substr(0, start.size() - r.text.size());
        out.push_back(std::move(entry));
    }
    if (!r.good || out.empty()) return std::nullopt;
    return out;
}

std::optional<std::string> read_signature(std::string_view field, std::string_view label) {
    reader r{field};
    for (r.skip_space(); r.good && !r.text.empty(); r.skip_space()) {
        const auto name = r.word();
        r.expect('=');
        r.expect(':');
        const auto end = r.text.find(':');
        if (!r.good || end == std::string_view::npos) return std::nullopt;
        const auto text = r.text.substr(0, end);
        r.text.remove_prefix(end + 1);
        if (name == label) {
            if (auto bytes = base::base64_decode(text)) return std::move(*bytes);
            if (auto bytes = base::base64url_decode(text)) return std::move(*bytes);
            return std::nullopt;
        }
        r.skip_space();
        if (!r.text.empty()) r.expect(',');
    }
    return std::nullopt;
}

}  // namespace outboxd::wire
