#include "config/reader.hpp"

#include <algorithm>

#include "config/near_match.hpp"

namespace outboxd::config {
namespace {

std::string below(const std::string& prefix, std::string_view word) { return prefix.empty() ? std::string(word) : prefix + "." + std::string(word); }

bool is_section(scope s, const std::string& name) { return !words_below(s, name).empty(); }

// For a word that no key of its section is near to: where a key of that name, or of one of its parts, lives.
std::string elsewhere(std::string_view word) {
    const std::vector<std::string> exact = names_ending_in(word);
    if (!exact.empty()) return ": the key of this name is `" + exact.front() + "`";
    std::vector<std::string> last_words;
    for (const key& row : keys()) last_words.emplace_back(row.path.substr(row.path.rfind('.') + 1));
    std::string near = near_match(word, last_words);
    for (std::size_t at = 0; near.empty() && at < word.size();) {
        const std::size_t end = std::min(word.find_first_of("_-. ", at), word.size());
        if (end - at >= 4) near = near_match(word.substr(at, end - at), last_words);
        at = end + 1;
    }
    return near.empty() ? std::string{} : suggestion(names_ending_in(near).front());
}

}  // namespace

std::string sayable(std::string_view word) {
    const bool plain = std::all_of(word.begin(), word.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ' '; });
    const bool secret = word.find("whsec_") != std::string_view::npos || word.find("whsk_") != std::string_view::npos;
    return plain && !secret && !word.empty() && word.size() <= 40 ? std::string(word) : std::string{};
}

const node* member_of(const node& map, std::string_view name) noexcept {
    for (const auto& [key_node, value] : map.members) {
        if (key_node.text == name) return &value;
    }
    return nullptr;
}

void reader::report(int line, const std::string& shown, const std::string& text, bool warning) { problems_.push_back({file_, line, shown, subject_ + text, warning}); }

int reader::line_of(const std::string& shown) const {
    const auto found = lines_.find(shown);
    return found == lines_.end() ? 0 : found->second;
}

const std::string* reader::resolved(const node& n) const {
    const auto found = resolved_.find(&n);
    return found == resolved_.end() ? nullptr : &found->second;
}

std::string reader::secret_file_of(const std::string& shown) const {
    const auto found = secret_files_.find(shown);
    return found == secret_files_.end() ? std::string{} : found->second;
}

void reader::read_section(scope s, const node& section, const std::string& name, const std::string& shown, const targets& into) {
    if (!section.is_map()) {
        const std::vector<std::string> words = words_below(s, name);
        std::string listed;
        for (const std::string& word : words) listed += (listed.empty() ? "" : ", ") + word;
        report(section.line, shown, "must be a section with the keys " + listed + ", not " + std::string(describe(section)));
        return;
    }
    for (const auto& [key_node, value] : section.members) read_member(s, key_node, value, name, shown, into);
}

void reader::read_member(scope s, const node& key_node, const node& value, const std::string& section_name, const std::string& shown_section, const targets& into) {
    const std::string name = below(section_name, key_node.text);
    if (s == scope::file && name == "endpoints") return;  // a list, read by the caller once the defaults are known
    // A dot within a written key is no path.
    const bool dotted = key_node.text.find('.') != std::string::npos;
    const key* row = dotted ? nullptr : find_key(s, name);
    const bool section = !dotted && row == nullptr && is_section(s, name);
    if (row == nullptr && !section) {
        report_unknown(s, key_node, section_name, shown_section);
        return;
    }
    const std::string shown = below(shown_section, key_node.text);
    const auto [first, fresh] = lines_.emplace(shown, key_node.line);
    if (!fresh) {
        report(key_node.line, shown, "written twice; the first is in line " + std::to_string(first->second));
        return;
    }
    if (row != nullptr) {
        read_value({row, value, shown}, row->field(into));
    } else if (!value.is_null()) {
        read_section(s, value, name, shown, into);
    } else if (name == "auto_disable" || name == "defaults.auto_disable") {
        into.settings->auto_disable_after.reset();  // `auto_disable: null` says never, as plainly as its only key would
    } else if (name.find('.') != std::string::npos || s != scope::file) {
        // An empty section of the file's top level has all of its keys commented out; below, null might be meant to switch something off.
        report(key_node.line, shown, "must be a section, not null; leave it out for the defaults");
    }
}

void reader::report_unknown(scope s, const node& key_node, const std::string& section_name, const std::string& shown_section) {
    const std::string word = sayable(key_node.text);
    const std::string near = near_match(word, words_below(s, section_name));
    const std::string hint = word.empty() ? std::string{} : near.empty() ? elsewhere(word) : suggestion(near);
    report(key_node.line, below(shown_section, word.empty() ? "?" : word), "unknown key" + hint);
}

bool reader::only_known(const node& map, const std::string& shown, const std::vector<std::string>& words) {
    bool good = true;
    for (auto member = map.members.begin(); member != map.members.end(); ++member) {
        const node& key_node = member->first;
        const std::string word = sayable(key_node.text);
        if (std::find(words.begin(), words.end(), key_node.text) == words.end()) {
            report(key_node.line, below(shown, word.empty() ? "?" : word), "unknown key" + suggestion(near_match(word, words)));
            good = false;
        } else if (std::any_of(map.members.begin(), member, [&](const auto& other) { return other.first.text == key_node.text; })) {
            report(key_node.line, below(shown, word), "written twice");
            good = false;
        }
    }
    return good;
}

void reader::refuse(const place& at, const std::string& detail) {
    const std::string what = at.value.is_scalar() ? std::string{} : ", not " + std::string(describe(at.value));
    report(at.value.line, at.shown, "must be " + accepted_form(*at.row) + what + (detail.empty() ? "" : ": " + detail));
}

void reader::refuse_item(const place& at, const node& item, const std::string& detail) { report(item.line, at.shown, "must be " + accepted_form(*at.row) + ": " + detail); }

void reader::read_null(const place& at, const slot& to) {
    if (!at.row->nullable) {
        // Written null, or nothing behind the colon.
        report(at.value.line, at.shown, "must be " + accepted_form(*at.row) + ", not null; leave the key out for its default, or put text in quotes");
        return;
    }
    std::visit(
        [&at](auto* field) {
            using type = std::remove_reference_t<decltype(*field)>;
            if constexpr (requires { field->reset(); }) {
                field->reset();
            } else if constexpr (std::is_same_v<type, std::string> || std::is_same_v<type, base::secret>) {
                *field = type{};
            }
            // An endpoint's `proxy: null` says something: none, whatever egress.proxy is.
            if constexpr (std::is_same_v<type, std::optional<std::string>>) {
                if (at.row->shape == form::proxy) field->emplace();
            }
        },
        to);
}

void reader::read_value(const place& at, const slot& to) {
    if (at.value.is_null()) {
        read_null(at, to);
        return;
    }
    switch (at.row->shape) {
        case form::whole: return read_whole(at, std::get<int*>(to));
        case form::size: return read_size(at, std::get<std::int64_t*>(to));
        case form::duration: return read_duration(at, to);
        case form::boolean: return read_boolean(at, std::get<bool*>(to));
        case form::choice: return read_choice(at, to);
        case form::text:
        case form::identifier:
        case form::name:
        case form::listen:
        case form::fingerprint: return read_text(at, to);
        case form::url: return read_url(at, std::get<std::string*>(to));
        case form::path: return read_path(at, std::get<std::string*>(to));
        case form::patterns: return read_patterns(at, std::get<std::vector<std::string>*>(to));
        case form::rules: return read_rules(at, std::get<std::vector<wire::egress_rule>*>(to));
        case form::hosts: return read_hosts(at, std::get<std::vector<std::string>*>(to));
        case form::statuses: return read_statuses(at, std::get<wire::status_set*>(to));
        case form::rate: return read_rate(at, std::get<std::optional<rate_limit>*>(to));
        case form::retry: return read_retry(at, std::get<lifecycle::retry_policy*>(to));
        case form::headers: return read_headers(at, std::get<wire::header_list*>(to));
        case form::secret:
            if (auto value = secret_at(at.value, at.shown)) *std::get<base::secret*>(to) = std::move(*value);
            return;
        case form::database_url: return read_database_url(at, std::get<base::secret*>(to));
        case form::proxy: return read_proxy(at, to);
        case form::secrets: return read_secrets(at, std::get<std::vector<base::secret>*>(to));
    }
}

}  // namespace outboxd::config
