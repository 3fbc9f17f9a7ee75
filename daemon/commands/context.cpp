#include "commands/context.hpp"

#include <cstdio>
#include <iostream>

#include "postgres/pg_operator_store.hpp"
#include "settings.hpp"

namespace outboxd::daemon {

void print_problems(const std::vector<config::problem>& problems) {
    for (const auto& p : problems) std::cerr << (p.warning ? "" : "error: ") << p.to_string() << '\n';
}

config::config settings_of(const arguments& args, config::secrets which) {
    const auto path = choose_config_path(args.get("--config"), args.get("--database"));
    auto loaded = load_settings(path, args.get("--database"), which);
    if (!loaded.value) {
        print_problems(loaded.problems);
        throw base::failure(base::make_error(base::errc::bad_config, "bad configuration" + (path.empty() ? std::string{} : " in " + path)));
    }
    return std::move(*loaded.value);
}

postgres::connect_options connect_options_of(const config::config& settings, std::string purpose) {
    postgres::connect_options options;
    options.url = settings.database.url;
    options.url_file = settings.database.url_file;
    options.purpose = std::move(purpose);
    return options;
}

std::string default_rate_of(const config::config& settings) {
    if (!settings.defaults.rate) return {};
    char text[64];
    std::snprintf(text, sizeof text, "%g/s", settings.defaults.rate->per_second);
    return text;
}

operator_session::operator_session(const config::config& settings) : settings_(settings) {
    postgres::operator_store_options options;
    options.connect = connect_options_of(settings_, "command");
    options.schema = settings_.database.schema;
    store_ = std::make_unique<postgres::pg_operator_store>(loop_.get_executor(), std::move(options));
}

operator_session::~operator_session() {
    store_.reset();
    loop_.restart();
    loop_.run_for(base::milliseconds{1000});  // lets the goodbye to the server out; nothing else is pending
}

}  // namespace outboxd::daemon
