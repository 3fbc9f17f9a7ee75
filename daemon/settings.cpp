#include "settings.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "config/near_match.hpp"
#include "postgres/conninfo.hpp"

namespace outboxd::daemon {
namespace {

constexpr const char* database_variable = "OUTBOXD_DATABASE_URL";

bool is_set(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
}

// Variables with our prefix that neither we nor the file read, and that are nearly the one that we read. Others stay: container platforms set OUTBOXD_PORT and
// the like by themselves.
std::vector<config::problem> misspelt_variables(const std::set<std::string>& read) {
    std::vector<config::problem> problems;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text{*entry};
        const std::string name{text.substr(0, text.find('='))};
        if (!name.starts_with("OUTBOXD_") || name == database_variable || read.contains(name)) continue;
        const auto near = config::near_match(name, {database_variable});
        if (near.empty()) continue;
        config::problem p;
        p.file = "environment";
        p.key = name;
        p.text = "unknown variable" + config::suggestion(near);
        problems.push_back(std::move(p));
    }
    return problems;
}

// A string that libpq cannot read will never connect: that is the configuration's fault and not the database's.
void check_connection_strings(config::load_result& loaded, const std::string& file) {
    if (!loaded.value) return;
    const auto& database = loaded.value->database;
    bool bad = false;
    const auto check = [&](const base::secret& url, const char* key) {
        if (url.empty()) return;
        const auto read = postgres::read_conninfo(url.reveal());
        if (read) return;
        config::problem p;
        p.file = file;
        p.key = key;
        p.text = read.error().text;
        loaded.problems.push_back(std::move(p));
        bad = true;
    };
    if (database.url_file.empty()) check(database.url, "database.url");  // a file is read again at every reconnect
    check(database.listen_url, "database.listen_url");
    if (bad) loaded.value.reset();
}

}  // namespace

std::string choose_config_path(const std::optional<std::string>& config_flag, const std::optional<std::string>& database_flag) {
    if (config_flag) return *config_flag;
    std::error_code ignored;
    if (std::filesystem::exists(default_config_path, ignored)) return default_config_path;
    const bool named_elsewhere = database_flag.has_value() || is_set(database_variable) || is_set("PGHOST") || is_set("PGSERVICE") || is_set("PGDATABASE");
    return named_elsewhere ? "" : default_config_path;
}

config::load_result load_settings(const std::string& config_path, const std::optional<std::string>& database_flag, config::secrets which) {
    std::set<std::string> read;
    const auto process = config::process_environment();
    const config::environment recording = [&](const std::string& name) {
        read.insert(name);
        return process(name);
    };
    auto loaded = config_path.empty() ? config::load_text("", "(no file)", recording) : config::load_file(config_path, recording, which);
    auto misspelt = misspelt_variables(read);
    if (!misspelt.empty()) loaded.value.reset();
    loaded.problems.insert(loaded.problems.end(), std::make_move_iterator(misspelt.begin()), std::make_move_iterator(misspelt.end()));
    if (!loaded.value) return loaded;
    auto& database = loaded.value->database;
    if (database_flag) {
        database.url = base::secret{*database_flag};
        database.url_file.clear();
    } else if (is_set(database_variable)) {
        database.url = base::secret{std::getenv(database_variable)};
        database.url_file.clear();
    }
    check_connection_strings(loaded, database_flag ? "--database" : config_path);
    return loaded;
}

}  // namespace outboxd::daemon
