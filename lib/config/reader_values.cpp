// The readers of single values and plain lists.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/encoding.hpp"
#include "config/addresses.hpp"
#include "config/near_match.hpp"
#include "config/reader.hpp"
#include "config/scalars.hpp"
#include "wire/url.hpp"

namespace outboxd::config {
namespace {

constexpr std::size_t max_text = 255;
constexpr std::size_t max_items = 1000;

bool within(std::string_view text, std::string_view extra, bool upper) {
    return std::all_of(text.begin(), text.end(), [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (upper && c >= 'A' && c <= 'Z') || extra.find(c) != std::string_view::npos;
    });
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_identifier(std::string_view text) {
    const bool digit_first = !text.empty() && text.front() >= '0' && text.front() <= '9';
    return !text.empty() && text.size() <= 50 && !digit_first && within(text, "_", false) && !text.starts_with("pg_") && text != "information_schema";
}

bool is_name(std::string_view text) { return !text.empty() && text.size() <= 64 && within(text, "_.-", true) && within(text.substr(0, 1), "", true); }

bool is_fingerprint(std::string_view text) {
    const auto bytes = base::base64_decode(text);
    return bytes && bytes->size() == 32;
}

bool fits(form shape, std::string_view text) {
    switch (shape) {
        case form::identifier: return is_identifier(text);
        case form::name: return is_name(text);
        case form::listen: return parse_listen(text).has_value();
        case form::fingerprint: return is_fingerprint(text);
        default: return !text.empty() && text.size() <= max_text && !has_control(text);
    }
}

bool is_pattern(std::string_view text) {
    const std::size_t star = text.find('*');
    return !text.empty() && text.size() <= max_text && !has_control(text) && (star == std::string_view::npos || star + 1 == text.size());
}

std::vector<std::string> split_choices(std::string_view choices) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at <= choices.size();) {
        const std::size_t bar = std::min(choices.find('|', at), choices.size());
        out.emplace_back(choices.substr(at, bar - at));
        at = bar + 1;
    }
    return out;
}

}  // namespace

void reader::read_whole(const place& at, int* to) {
    const auto value = at.value.is_scalar() && at.value.plain ? parse_whole(at.value.text) : std::nullopt;
    if (!value || *value < at.row->low || *value > at.row->high) return refuse(at);
    *to = static_cast<int>(*value);
}

void reader::read_size(const place& at, std::int64_t* to) {
    const auto value = at.value.is_scalar() ? parse_size(at.value.text) : std::nullopt;
    if (!value || *value < at.row->low || *value > at.row->high) return refuse(at);
    *to = *value;
}

void reader::read_duration(const place& at, const slot& to) {
    if (!at.value.is_scalar()) return refuse(at);
    const auto value = base::parse_duration(at.value.text);
    if (!value || value->count() < at.row->low || value->count() > at.row->high) return refuse(at);
    if (auto* const* optional = std::get_if<std::optional<base::milliseconds>*>(&to)) {
        **optional = *value;
    } else {
        *std::get<base::milliseconds*>(to) = *value;
    }
}

void reader::read_boolean(const place& at, bool* to) {
    const bool yes = at.value.text == "true";
    if (!at.value.is_scalar() || !at.value.plain || (!yes && at.value.text != "false")) {
        return refuse(at, at.value.is_scalar() && !at.value.plain ? "quoted text is neither" : "");
    }
    *to = yes;
}

void reader::read_choice(const place& at, const slot& to) {
    const std::vector<std::string> choices = split_choices(at.row->choices);
    const auto found = std::find(choices.begin(), choices.end(), at.value.text);
    if (!at.value.is_scalar() || found == choices.end()) {
        const std::string near = near_match(at.value.text, choices);
        return refuse(at, near.empty() ? std::string{} : "did you mean `" + near + "`?");
    }
    const auto index = found - choices.begin();
    std::visit(
        [&](auto* field) {
            using type = std::remove_reference_t<decltype(*field)>;
            if constexpr (std::is_same_v<type, std::string>) {
                *field = *found;
            } else if constexpr (std::is_enum_v<type>) {
                *field = static_cast<type>(index);
            }
        },
        to);
}

std::optional<std::string> reader::text_at(const place& at) {
    if (at.value.is_scalar()) return at.value.text;
    refuse(at);
    return std::nullopt;
}

void reader::read_text(const place& at, const slot& to) {
    const auto text = text_at(at);
    if (!text) return;
    if (!fits(at.row->shape, *text)) return refuse(at);
    if (auto* const* optional = std::get_if<std::optional<std::string>*>(&to)) {
        **optional = *text;
    } else {
        *std::get<std::string*>(to) = *text;
    }
}

void reader::read_url(const place& at, std::string* to) {
    const auto text = text_at(at);
    if (!text) return;
    *to = *text;  // also a wrong one: an endpoint without a url would be a second complaint about the same line
    if (const auto parsed = wire::parse_url(*text); !parsed) report(at.value.line, at.shown, parsed.error().text);
}

void reader::read_path(const place& at, std::string* to) {
    const auto text = text_at(at);
    if (!text) return;
    if (text->empty() || has_control(*text)) return refuse(at);
    const std::string path = absolute_path(*text, source_.directory);
    if (::access(path.c_str(), R_OK) != 0) return report(at.value.line, at.shown, "cannot read " + base::printable(path, 200) + ": it must be the path of a readable file");
    resolved_[&at.value] = path;
    *to = path;
}

std::optional<std::vector<std::string>> reader::texts_at(const place& at) {
    if (!at.value.is_list()) {
        refuse(at);
        return std::nullopt;
    }
    if (at.value.items.size() > max_items) {
        refuse(at, "more than 1000 entries");
        return std::nullopt;
    }
    std::vector<std::string> texts;
    for (const node& item : at.value.items) {
        if (item.is_scalar()) {
            texts.push_back(item.text);
        } else {
            refuse_item(at, item, "an entry is " + std::string(describe(item)));
            return std::nullopt;
        }
    }
    return texts;
}

void reader::read_patterns(const place& at, std::vector<std::string>* to) {
    const auto texts = texts_at(at);
    if (!texts) return;
    for (std::size_t i = 0; i < texts->size(); ++i) {
        if (!is_pattern((*texts)[i])) return refuse_item(at, at.value.items[i], "entry " + std::to_string(i + 1) + " is none (1 to 255 bytes, no control characters)");
    }
    *to = *texts;
}

void reader::read_rules(const place& at, std::vector<wire::egress_rule>* to) {
    const auto texts = texts_at(at);
    if (!texts) return;
    std::vector<wire::egress_rule> rules;
    for (std::size_t i = 0; i < texts->size(); ++i) {
        auto rule = wire::parse_egress_rule((*texts)[i]);
        if (rule) rules.push_back(std::move(*rule));
        else refuse_item(at, at.value.items[i], "entry " + std::to_string(i + 1) + ": " + rule.error().text);
    }
    *to = std::move(rules);
}

void reader::read_hosts(const place& at, std::vector<std::string>* to) {
    const auto texts = texts_at(at);
    if (!texts) return;
    std::vector<std::string> hosts;
    for (std::size_t i = 0; i < texts->size(); ++i) {
        // `.example.com` is how NO_PROXY spells `*.example.com`.
        const std::string host = (*texts)[i].starts_with('.') ? "*" + (*texts)[i] : (*texts)[i];
        if (host != "*" && !wire::parse_egress_rule(host)) {
            refuse_item(at, at.value.items[i], "entry " + std::to_string(i + 1) + " is none");
        } else {
            hosts.push_back(host);
        }
    }
    *to = std::move(hosts);
}

void reader::read_statuses(const place& at, wire::status_set* to) {
    const auto texts = texts_at(at);
    if (!texts) return;
    auto set = wire::status_set::parse(*texts);
    if (!set) return refuse(at, set.error().text);
    *to = std::move(*set);
}

std::optional<base::secret> reader::secret_at(const node& n, const std::string& shown, bool always) {
    auto found = find_secret(n, source_);
    if (!found) {
        if (source_.needed || always || found.error().code != base::errc::io) report(n.line, shown, found.error().text);
        return std::nullopt;
    }
    if (!found->warning.empty()) report(n.line, shown, found->warning, true);
    if (!found->file.empty()) secret_files_[shown] = found->file;
    return std::move(found->value);
}

void reader::read_secrets(const place& at, std::vector<base::secret>* to) {
    if (!at.value.is_list()) return refuse(at);
    if (at.value.items.size() > 16) return refuse(at, "more than 16 secrets");
    std::vector<base::secret> secrets;
    for (std::size_t i = 0; i < at.value.items.size(); ++i) {
        const std::string shown = at.shown + "[" + std::to_string(i) + "]";
        lines_.emplace(shown, at.value.items[i].line);
        // A secret that cannot be had still takes its place, so that the others keep their numbers in later problems.
        secrets.push_back(secret_at(at.value.items[i], shown).value_or(base::secret{}));
    }
    *to = std::move(secrets);
}

void reader::read_database_url(const place& at, base::secret* to) {
    auto value = secret_at(at.value, at.shown, true);
    if (!value) return;
    if (const auto good = check_database_url(value->reveal()); !good) return report(at.value.line, at.shown, good.error().text);
    *to = std::move(*value);
}

void reader::read_proxy(const place& at, const slot& to) {
    auto value = secret_at(at.value, at.shown);
    if (!value) return;
    if (const auto good = check_proxy(value->reveal()); !good) return report(at.value.line, at.shown, good.error().text);
    if (auto* const* optional = std::get_if<std::optional<std::string>*>(&to)) {
        resolved_[&at.value] = std::string(value->reveal());
        (*optional)->emplace(value->reveal());
    } else {
        *std::get<base::secret*>(to) = std::move(*value);
    }
}

}  // namespace outboxd::config
