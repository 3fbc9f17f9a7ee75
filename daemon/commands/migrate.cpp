// migrate: the schema to this program's version, then the file's endpoints into the table, so that fan-out is right before the first run.
#include <iostream>

#include "admin/json_writer.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"
#include "postgres/endpoint_sync.hpp"
#include "postgres/migrator.hpp"

namespace outboxd::daemon {
namespace {

void put_names(admin::json_writer& w, const char* key, const std::vector<std::string>& names) {
    w.key(key).begin_array();
    for (const auto& n : names) w.value(n);
    w.end_array();
}

int show_status(const arguments& args, const std::vector<postgres::migration_status>& list) {
    if (args.json()) {
        admin::json_writer w;
        w.begin_array();
        for (const auto& m : list)
            w.begin_object()
                .member("version", m.version)
                .member("name", m.name)
                .member("applied", m.applied)
                .text_or_null("applied_at", m.applied_at)
                .end_object();
        w.end_array();
        print_json(w.text());
        return exit_done;
    }
    table t({"VERSION", "NAME", "APPLIED"});
    for (const auto& m : list) t.row({std::to_string(m.version), m.name, m.applied ? m.applied_at : "no"});
    t.print();
    return exit_done;
}

void report(const arguments& args, const config::config& settings, const std::vector<std::string>& applied, const postgres::sync_report& endpoints,
            const std::optional<std::string>& writer) {
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("schema", settings.database.schema).member("version", postgres::newest_migration());
        put_names(w, "applied", applied);
        w.key("endpoints").begin_object();
        put_names(w, "added", endpoints.added);
        put_names(w, "changed", endpoints.changed);
        put_names(w, "taken_over", endpoints.taken_over);
        put_names(w, "removed", endpoints.removed);
        w.end_object().member("writer", writer).end_object();
        print_json(w.text());
        return;
    }
    for (const auto& name : applied) std::cout << "applied " << name << '\n';
    std::cout << "schema " << settings.database.schema << " is at version " << postgres::newest_migration() << (applied.empty() ? ", nothing to apply" : "")
              << '\n';
    const std::pair<const char*, const std::vector<std::string>*> changes[] = {{"added", &endpoints.added},
                                                                               {"changed", &endpoints.changed},
                                                                               {"taken over", &endpoints.taken_over},
                                                                               {"disabled, since it left the file", &endpoints.removed}};
    for (const auto& [what, names] : changes) {
        for (const auto& n : *names) std::cout << "endpoint " << n << ": " << what << '\n';
    }
    if (writer) std::cout << "role " << base_printable(*writer) << " may insert events\n";
}

int migrate(const arguments& args) {
    const auto settings = settings_of(args);
    boost::asio::io_context loop;
    postgres::migrator migrator(loop.get_executor(), connect_options_of(settings, "migrate"), settings.database.schema);
    const auto writer = args.get("--grant-writer");
    if (args.has("--print")) {
        if (args.json() || args.has("--status") || writer) throw usage_error("--print goes alone: it prints SQL and changes nothing");
        std::cout << migrator.print();
        return exit_done;
    }
    if (args.has("--status")) {
        if (writer) throw usage_error("--status changes nothing; leave --grant-writer away");
        return show_status(args, wait_for(loop, migrator.status()));
    }
    if (writer) wait_for(loop, migrator.check_role(*writer));  // before anything is changed
    const auto applied = wait_for(loop, migrator.apply());
    const auto endpoints = wait_for(loop, postgres::sync_endpoints(loop.get_executor(), connect_options_of(settings, "migrate"), settings.database.schema,
                                                                   std::make_shared<const config::config>(settings)));
    if (writer) wait_for(loop, migrator.grant_writer(*writer));
    report(args, settings, applied, endpoints, writer);
    return exit_done;
}

}  // namespace

std::vector<command> migrate_commands() {
    command c;
    c.name = "migrate";
    c.summary = "brings the schema to this version and the file's endpoints into it";
    c.about = "Idempotent, and safe when run by several at once. The role that runs it owns the schema; no role is created.";
    c.flags = {{"--status", "", "show which migrations are applied; change nothing"},
               {"--print", "", "print the migrations as SQL for psql; change nothing"},
               {"--grant-writer", "ROLE", "let this existing role insert events: USAGE, INSERT on event, SELECT (id, event_id)"}};
    c.examples = {"outboxd migrate", "outboxd migrate --grant-writer app", "outboxd migrate --print > outbox.sql", "outboxd migrate --status --json"};
    c.run = migrate;
    return {c};
}

}  // namespace outboxd::daemon
