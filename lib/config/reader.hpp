// From the tree of a document to the fields of the key table, with every problem on the way. Floor 2.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/document.hpp"
#include "config/schema.hpp"
#include "config/secret_source.hpp"

namespace outboxd::config {

class reader {
public:
    reader(std::string file, secret_source source, std::vector<problem>& problems) : file_(std::move(file)), source_(std::move(source)), problems_(problems) {}

    // Reads the section `name` of the scope (empty: its top) into the targets. `shown` is its dotted path for people. The file's `endpoints` are passed over: they inherit from `defaults`,
    // so the caller reads them when the rest is known.
    void read_section(scope s, const node& section, const std::string& name, const std::string& shown, const targets& into);
    // Whether the file says something about this key, and in which line; 0: no.
    [[nodiscard]] int line_of(const std::string& shown) const;
    // What is said in front of every problem from now on: `endpoint billing: `. Empty: nothing.
    void set_subject(std::string subject) { subject_ = std::move(subject); }
    void report(int line, const std::string& shown, const std::string& text, bool warning = false);

    // Text that stands for a node after references and relative paths are resolved; nullptr: its own.
    [[nodiscard]] const std::string* resolved(const node& n) const;
    // The path of the file that the secret at this place came from; empty: none.
    [[nodiscard]] std::string secret_file_of(const std::string& shown) const;

private:
    struct place {
        const key* row;
        const node& value;
        std::string shown;
    };
    void read_member(scope s, const node& key_node, const node& value, const std::string& section_name, const std::string& shown_section, const targets& into);
    void report_unknown(scope s, const node& key_node, const std::string& section_name, const std::string& shown_section);
    void read_value(const place& at, const slot& to);
    void read_null(const place& at, const slot& to);
    void refuse(const place& at, const std::string& detail = {});
    void refuse_item(const place& at, const node& item, const std::string& detail);
    [[nodiscard]] std::optional<std::string> text_at(const place& at);
    [[nodiscard]] std::optional<std::vector<std::string>> texts_at(const place& at);
    // `always`: wanted even by commands that need no secrets.
    [[nodiscard]] std::optional<base::secret> secret_at(const node& n, const std::string& shown, bool always = false);
    [[nodiscard]] bool only_known(const node& map, const std::string& shown, const std::vector<std::string>& words);

    void read_whole(const place& at, int* to);
    void read_size(const place& at, std::int64_t* to);
    void read_duration(const place& at, const slot& to);
    void read_boolean(const place& at, bool* to);
    void read_choice(const place& at, const slot& to);
    void read_text(const place& at, const slot& to);
    void read_url(const place& at, std::string* to);
    void read_path(const place& at, std::string* to);
    void read_proxy(const place& at, const slot& to);
    void read_patterns(const place& at, std::vector<std::string>* to);
    void read_rules(const place& at, std::vector<wire::egress_rule>* to);
    void read_hosts(const place& at, std::vector<std::string>* to);
    void read_statuses(const place& at, wire::status_set* to);
    void read_secrets(const place& at, std::vector<base::secret>* to);
    void read_database_url(const place& at, base::secret* to);
    void read_headers(const place& at, wire::header_list* to);
    void read_rate(const place& at, std::optional<rate_limit>* to);
    void read_retry(const place& at, lifecycle::retry_policy* to);
    void read_retry_section(const place& at, lifecycle::retry_policy* to);
    [[nodiscard]] std::optional<std::vector<base::milliseconds>> schedule_at(const place& at, const node& n);

    std::string file_;
    secret_source source_;
    std::vector<problem>& problems_;
    std::string subject_;
    std::map<std::string, int> lines_;
    std::map<const node*, std::string> resolved_;
    std::map<std::string, std::string> secret_files_;
};

// A word from the file for a sentence: short, printable and no signing secret in a wrong place; else empty.
[[nodiscard]] std::string sayable(std::string_view word);
[[nodiscard]] const node* member_of(const node& map, std::string_view name) noexcept;

}  // namespace outboxd::config
