// What the key table says for people: the reference file and the accepted forms.
#include <algorithm>

#include "base/time.hpp"
#include "config/scalars.hpp"
#include "config/schema.hpp"

namespace outboxd::config {
namespace {

constexpr std::string_view head =
    "# outboxd: every key with its default. The file may be empty; what is left out has the default shown here.\n"
    "# Durations: 250ms 5s 10m 2h 7d. Sizes: 512B 64KiB 1MiB 2GiB. Rates: 100/s 6000/m 36000/h. Numbers are decimal.\n"
    "# Secret forms: the text itself; ${NAME} as the whole value, or { env: NAME }; { file: PATH }, relative to this file,\n"
    "# without its one last line end, read again at a reload. `$` means nothing elsewhere. An unset or empty one is an error.\n"
    "# SIGHUP reloads the file; keys marked [restart] take effect at the next start.\n";

constexpr std::string_view endpoints_head =
    "\n"
    "# A list. Each entry has a name and a url, and may override every key of `defaults` but `secrets`, one by one:\n"
    "#   endpoints:\n"
    "#     - name: billing\n"
    "#       url: https://billing.example.com/hooks\n"
    "#       events: [\"order.*\", \"invoice.paid\"]\n"
    "#       secrets: [{ env: BILLING_SECRET }]\n"
    "#       timeout: 10s\n"
    "#       retry: agent-zero\n"
    "# The other keys of an entry, with their defaults:\n";

std::string indent_of(std::size_t depth) { return std::string(2 * depth, ' '); }

void append_comment(std::string& out, std::string_view indent, const key& row) {
    out += indent;
    out += "# ";
    out += row.sentence;
    if (!row.reloadable) out += " [restart]";
    out += '\n';
}

// `a.b.c` as sections and one line; `open` are the sections that stand open, `lead` is put before each line.
void append_key(std::string& out, std::vector<std::string>& open, std::string_view name, const key& row, std::string_view lead) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= name.size();) {
        const std::size_t dot = std::min(name.find('.', at), name.size());
        words.emplace_back(name.substr(at, dot - at));
        at = dot + 1;
    }
    std::size_t common = 0;
    while (common < open.size() && common + 1 < words.size() && open[common] == words[common]) ++common;
    open.resize(common);
    for (; open.size() + 1 < words.size(); open.push_back(words[open.size()])) {
        if (open.empty() && lead.empty()) out += '\n';
        out += std::string(lead) + indent_of(open.size()) + words[open.size()] + ":\n";
    }
    const std::string indent = std::string(lead) + indent_of(open.size());
    if (lead.empty()) append_comment(out, indent, row);
    out += indent + words.back() + ": " + std::string(row.default_text);
    if (!lead.empty()) out += "  # " + std::string(row.sentence);
    out += '\n';
}

void append_endpoints(std::string& out) {
    out += endpoints_head;
    std::vector<std::string> open;
    for (const key& row : keys()) {
        constexpr std::string_view prefix = "endpoints[].";
        if (row.path.starts_with(prefix) && !row.default_text.empty()) append_key(out, open, row.path.substr(prefix.size()), row, "#       ");
    }
    out += "endpoints: []\n";
}

std::string joined_choices(std::string_view choices) {
    std::string out = "one of ";
    for (const char c : choices) {
        if (c == '|') out += ", ";
        else out += c;
    }
    return out;
}

}  // namespace

std::string reference_yaml() {
    std::string out{head};
    std::vector<std::string> open;
    bool endpoints_done = false;
    for (const key& row : keys()) {
        if (!row.path.starts_with("endpoints[]")) {
            append_key(out, open, row.path, row, "");
        } else if (!endpoints_done) {
            append_endpoints(out);
            endpoints_done = true;
        }
    }
    return out;
}

std::string accepted_form(const key& row) {
    const auto from_to = [](const std::string& low, const std::string& high) { return " from " + low + " to " + high; };
    const std::string or_null = row.nullable ? ", or null" : "";
    switch (row.shape) {
        case form::whole: return "a decimal whole number" + from_to(std::to_string(row.low), std::to_string(row.high)) + or_null;
        case form::size: return "a size such as 512B, 64KiB, 1MiB or 2GiB," + from_to(format_size(row.low), format_size(row.high)) + or_null;
        case form::duration:
            return "a duration such as 250ms, 5s, 10m, 2h or 7d," + from_to(base::format_duration(base::milliseconds{row.low}), base::format_duration(base::milliseconds{row.high})) + or_null;
        case form::boolean: return "true or false, without quotes";
        case form::choice: return joined_choices(row.choices);
        case form::text: return "text of 1 to 255 bytes" + or_null;
        case form::identifier: return "a name of 1 to 50 of a-z 0-9 _ that begins with a letter or _ and not with pg_";
        case form::name: return "a name of 1 to 64 of A-Z a-z 0-9 _ . - that begins with a letter or digit";
        case form::url: return "an address such as https://host/path";
        case form::listen: return "ADDRESS:PORT such as 127.0.0.1:9464 or [::1]:9464, or null for no listener";
        case form::path: return "the path of a file" + or_null;
        case form::fingerprint: return "the base64 of a SHA-256 (44 characters)" + or_null;
        case form::patterns: return "a list of event types such as [\"order.*\", \"invoice.paid\"]; * only at the end";
        case form::rules: return "a list of CIDRs, host names or *.suffix, each with an optional :port";
        case form::hosts: return "a list of host names, *.suffix or CIDRs, or [\"*\"]";
        case form::statuses: return "a list of statuses such as [2xx, 409, 500-503]";
        case form::rate: return "a rate such as 100/s, 6000/m or 36000/h, or { rate: 100/s, burst: 20 }, or null";
        case form::retry: return "a preset's name, or a section with preset, schedule, base, factor, max, max_attempts or jitter";
        case form::headers: return "a section of header names and texts";
        case form::secret: return "text, ${NAME}, { env: NAME } or { file: PATH }" + or_null;
        case form::database_url: return "postgresql://user@host/database, libpq's keyword form, ${NAME}, { env: NAME } or { file: PATH }" + or_null;
        case form::proxy: return "http://host:port (with user:password@ if need be), ${NAME}, { env: NAME } or { file: PATH }" + or_null;
        case form::secrets: return "a list of secrets, each text, ${NAME}, { env: NAME } or { file: PATH }";
    }
    return "another value";
}

}  // namespace outboxd::config
