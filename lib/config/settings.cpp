#include "config/settings.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "config/scalars.hpp"

namespace outboxd::config {
namespace {

// Whether JSON may hold this text as a number that means the same.
bool survives_as_number(std::string_view text) {
    if (text.size() > 15) return false;
    if (parse_whole(text)) return text != "-0";
    return parse_decimal(text).has_value();
}

std::string quoted(std::string_view text) { return "\"" + base::json_escape(text) + "\""; }

// Numbers and booleans stay what they are where the key's form has such ones.
bool typed(const key& row) noexcept {
    return row.shape == form::whole || row.shape == form::boolean || row.shape == form::retry || row.shape == form::rate || row.shape == form::statuses;
}

void append(std::string& out, const node& n, bool with_types, const reader* read) {
    if (const std::string* text = read != nullptr ? read->resolved(n) : nullptr) {
        out += quoted(*text);
        return;
    }
    switch (n.type) {
        case node::kind::null: out += "null"; return;
        case node::kind::scalar: {
            const bool bare = with_types && n.plain && (n.text == "true" || n.text == "false" || survives_as_number(n.text));
            out += bare ? n.text : quoted(n.text);
            return;
        }
        case node::kind::list:
            out += '[';
            for (const node& item : n.items) {
                if (out.back() != '[') out += ',';
                append(out, item, with_types, read);
            }
            out += ']';
            return;
        case node::kind::map:
            out += '{';
            for (const auto& [name, value] : n.members) {
                if (out.back() != '{') out += ',';
                out += quoted(name.text) + ":";
                append(out, value, with_types, read);
            }
            out += '}';
            return;
    }
}

void append_section(std::string& out, const node& section, const std::string& prefix, const reader* read) {
    out += '{';
    for (const auto& [name, value] : section.members) {
        const std::string full = prefix.empty() ? name.text : prefix + "." + name.text;
        const key* row = find_key(scope::settings, full);
        if (row == nullptr && words_below(scope::settings, full).empty()) continue;
        if (out.back() != '{') out += ',';
        out += quoted(name.text) + ":";
        if (row != nullptr || !value.is_map()) append(out, value, row != nullptr && typed(*row), read);
        else append_section(out, value, full, read);
    }
    out += '}';
}

// Joins the problems of a settings object into one sentence.
base::error refusal(const std::vector<problem>& problems) {
    std::string text;
    for (const problem& p : problems) {
        if (p.warning) continue;
        if (!text.empty()) text += "; ";
        text += p.key.empty() ? p.text : p.key + ": " + p.text;
    }
    return base::make_error(base::errc::invalid_input, text);
}

bool any_error(const std::vector<problem>& problems) {
    return std::any_of(problems.begin(), problems.end(), [](const problem& p) { return !p.warning; });
}

secret_source literal_only() { return {nullptr, {}, false, nullptr}; }

base::result<endpoint_settings> apply(const endpoint_settings& defaults, const node& object) {
    std::vector<problem> problems;
    reader read("", literal_only(), problems);
    endpoint_settings settings = defaults;
    read.read_section(scope::settings, object, "", "", {nullptr, &settings, nullptr});
    complete_timeouts(settings, member_of(object, "timeout") != nullptr, member_of(object, "connect_timeout") != nullptr);
    if (!any_error(problems)) {
        for (const conflict& c : conflicts_within(settings)) problems.push_back({"", 0, c.key, c.text, false});
    }
    if (any_error(problems)) return refusal(problems);
    return settings;
}

// Sets or removes the member at a dotted key. Sections on the way are made; one that is no section is replaced.
void set_member(node& object, std::string_view dotted, std::optional<node> value) {
    const std::size_t dot = dotted.find('.');
    const std::string_view word = dotted.substr(0, dot);
    auto found = std::find_if(object.members.begin(), object.members.end(), [&](const auto& m) { return m.first.text == word; });
    if (dot == std::string_view::npos) {
        if (!value) {
            if (found != object.members.end()) object.members.erase(found);
            return;
        }
        if (found != object.members.end()) {
            found->second = std::move(*value);
            return;
        }
    }
    if (found == object.members.end()) {
        node name;
        name.type = node::kind::scalar;
        name.text = std::string(word);
        object.members.push_back({std::move(name), dot == std::string_view::npos ? std::move(*value) : node{}});
        found = std::prev(object.members.end());
    }
    if (dot == std::string_view::npos) return;
    if (!found->second.is_map()) {
        found->second = node{};
        found->second.type = node::kind::map;
    }
    set_member(found->second, dotted.substr(dot + 1), std::move(value));
}

void mask(node& n) {
    if (n.is_scalar()) {
        n.text = "***";
        n.plain = false;
    }
    for (node& item : n.items) mask(item);
    for (auto& [name, value] : n.members) mask(value);
}

}  // namespace

std::string settings_json(const node& section, const reader& read) {
    std::string out;
    append_section(out, section, "", &read);
    return out;
}

std::string redact_settings(std::string_view json_object) {
    auto object = parse_json_object(json_object);
    if (!object) return "{}";
    for (auto& [name, value] : object->members) {
        if (name.text == "headers") mask(value);
        if (name.text != "proxy" || !value.is_scalar()) continue;
        const std::size_t at = value.text.rfind('@');
        const std::size_t scheme = value.text.find("://");
        if (at != std::string::npos) value.text = (scheme < at ? value.text.substr(0, scheme + 3) : std::string{}) + "***" + value.text.substr(at);
    }
    std::string out;
    append(out, *object, true, nullptr);
    return out;
}

endpoint_settings built_in_settings() {
    endpoint_settings settings;
    settings.retry = lifecycle::retry_preset("standard-webhooks").value_or(lifecycle::retry_policy{});
    return settings;
}

void complete_timeouts(endpoint_settings& settings, bool timeout_written, bool connect_timeout_written) {
    if (timeout_written && !connect_timeout_written) settings.connect_timeout = std::min(settings.connect_timeout, settings.timeout);
}

std::vector<conflict> conflicts_within(const endpoint_settings& settings) {
    std::vector<conflict> found;
    if (settings.connect_timeout > settings.timeout) {
        found.push_back({"connect_timeout", "must not be longer than timeout: " + base::format_duration(settings.connect_timeout) + " against " + base::format_duration(settings.timeout)});
    }
    if (settings.circuit.max_open < settings.circuit.open_for) {
        found.push_back({"circuit.max_open", "must not be shorter than open_for: " + base::format_duration(settings.circuit.max_open) + " against " + base::format_duration(settings.circuit.open_for)});
    }
    if (settings.tls.client_cert.empty() != settings.tls.client_key.empty()) {
        const bool no_key = settings.tls.client_key.empty();
        found.push_back({no_key ? "tls.client_cert" : "tls.client_key", std::string("needs ") + (no_key ? "client_key" : "client_cert") + " beside it"});
    }
    return found;
}

base::result<endpoint_settings> apply_settings(const endpoint_settings& defaults, std::string_view json_object) {
    const auto object = parse_json_object(json_object);
    if (!object) return base::make_error(base::errc::invalid_input, "settings: " + object.error().text);
    return apply(defaults, *object);
}

base::result<std::string> merge_setting(std::string_view json_object, std::string_view key_name, std::string_view yaml_value) {
    auto object = parse_json_object(json_object);
    if (!object) return base::make_error(base::errc::invalid_input, "settings: " + object.error().text);
    std::vector<problem> problems;
    auto value = parse_yaml(yaml_value, "", problems);
    if (!value) return base::make_error(base::errc::invalid_input, std::string(key_name) + ": " + problems.front().text);
    const key* row = find_key(scope::settings, key_name);
    // null takes a key back to its default, except where null is a value of its own.
    const bool removed = value->is_null() && (row == nullptr || !row->nullable);
    set_member(*object, key_name, removed ? std::nullopt : std::optional<node>(std::move(*value)));
    const auto checked = apply(built_in_settings(), *object);
    if (!checked) return checked.error();
    std::string out;
    append_section(out, *object, "", nullptr);
    return out;
}

}  // namespace outboxd::config
