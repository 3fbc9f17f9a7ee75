#include "config/load.hpp"

#include <algorithm>
#include <cstdlib>

#include "config/environment.hpp"
#include "config/reader.hpp"
#include "config/settings.hpp"
#include "config/text_check.hpp"
#include "config/validate.hpp"

namespace outboxd::config {
namespace {

std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

void read_endpoint(const node& entry, std::size_t index, config& c, reader& read) {
    const std::string shown = "endpoints[" + std::to_string(index) + "]";
    endpoint_config e;
    e.settings = c.defaults;
    e.where = c.path + ":" + std::to_string(entry.line);
    const node* name = entry.is_map() ? member_of(entry, "name") : nullptr;
    const std::string said = name != nullptr ? sayable(name->text) : std::string{};
    read.set_subject(said.empty() ? std::string{} : "endpoint " + said + ": ");
    read.read_section(scope::endpoint, entry, "", shown, {&c, &e.settings, &e});
    if (entry.is_map()) {
        for (const char* required : {"name", "url"}) {
            if (member_of(entry, required) == nullptr) read.report(entry.line, shown + "." + required, "is missing: an endpoint has a name and a url");
        }
        complete_timeouts(e.settings, member_of(entry, "timeout") != nullptr, member_of(entry, "connect_timeout") != nullptr);
        e.settings_json = settings_json(entry, read);
    }
    read.set_subject({});
    c.endpoints.push_back(std::move(e));
}

void read_endpoints(const node& root, config& c, reader& read) {
    int first_line = 0;
    for (const auto& [key_node, value] : root.members) {
        if (key_node.text != "endpoints") continue;
        if (first_line != 0) {
            read.report(key_node.line, "endpoints", "written twice; the first is in line " + std::to_string(first_line));
            continue;
        }
        first_line = key_node.line;
        if (value.is_list()) {
            for (std::size_t i = 0; i < value.items.size(); ++i) read_endpoint(value.items[i], i, c, read);
        } else if (!value.is_null()) {
            read.report(value.line, "endpoints", "must be a list of endpoints (each begins with `- name: ...`), not " + std::string(describe(value)));
        }
    }
}

// Everything but the endpoints comes first: they inherit from it wherever it stands in the file.
void read_document(const node& root, config& c, reader& read) {
    if (root.is_null()) return;
    read.read_section(scope::file, root, "", "", {&c, &c.defaults, nullptr});
    complete_timeouts(c.defaults, read.line_of("defaults.timeout") != 0, read.line_of("defaults.connect_timeout") != 0);
    c.defaults.tls = c.tls;
    if (root.is_map()) read_endpoints(root, c, read);
    c.database.url_file = read.secret_file_of("database.url");
}

load_result finish(std::optional<config> value, std::vector<problem> problems) {
    std::stable_sort(problems.begin(), problems.end(), [](const problem& a, const problem& b) { return a.line < b.line; });
    if (problems.size() > max_problems) {
        // Warnings go first, so that an error is never what is left out of the count.
        std::stable_partition(problems.begin(), problems.end(), [](const problem& p) { return !p.warning; });
        const std::size_t more = problems.size() - max_problems;
        const bool only_warnings = problems[max_problems - 1].warning && problems.front().warning;
        problems.resize(max_problems);
        problems.push_back({problems.front().file, 0, "", "and " + std::to_string(more) + " more problems", only_warnings});
    }
    if (std::any_of(problems.begin(), problems.end(), [](const problem& p) { return !p.warning; })) value.reset();
    return {std::move(value), std::move(problems)};
}

load_result load(std::string_view yaml, const std::string& file_name, const environment& env, std::set<std::string>& used_variables, secrets which) {
    std::vector<problem> problems;
    const auto root = parse_yaml(yaml, file_name, problems);
    if (!root) return finish(std::nullopt, std::move(problems));
    config c;
    c.defaults = built_in_settings();
    c.path = file_name;
    reader read(file_name, {&env, directory_of(file_name), true, &used_variables, which == secrets::needed}, problems);
    read_document(*root, c, read);
    validate(c, read);
    return finish(std::move(c), std::move(problems));
}

}  // namespace

std::string problem::to_string() const {
    std::string out = file;
    if (line > 0) out += (out.empty() ? "line " : ":") + std::to_string(line);
    if (!out.empty()) out += ": ";
    if (warning) out += "warning: ";
    if (!key.empty()) out += key + ": ";
    return out + text;
}

environment process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>{value};
    };
}

load_result load_text(std::string_view yaml, const std::string& file_name, const environment& env, secrets which) {
    std::set<std::string> used;
    return load(yaml, file_name, env, used, which);
}

load_result load_file(const std::string& path, const environment& env, secrets which) {
    const auto read = read_regular_file(path, static_cast<std::int64_t>(max_document_bytes));
    if (!read) return {std::nullopt, {{path, 0, "", "cannot read the configuration: " + read.error().text, false}}};
    std::set<std::string> used;
    load_result result = load(read->text, path, env, used, which);
    for (problem& p : unknown_variables(process_variable_names(), used)) result.problems.push_back(std::move(p));
    return result;
}

}  // namespace outboxd::config
