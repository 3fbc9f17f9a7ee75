// check: the configuration, every problem at once; with --connect also the database, and DNS and TLS of every endpoint of the file.
#include <algorithm>
#include <iostream>

#include "admin/json_writer.hpp"
#include "base/encoding.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"
#include "https/probe.hpp"
#include "network.hpp"
#include "postgres/migrator.hpp"
#include "postgres/statements.hpp"
#include "relay/endpoint_directory.hpp"
#include "settings.hpp"

namespace outboxd::daemon {
namespace {

struct trial {
    std::string what;  // `database`, `endpoint billing`
    bool good{false};
    std::string text;
    int code{exit_done};
};

// Database: a session, and how far its schema is. A missing schema is no fault of the configuration, but worth a word.
trial try_database(const config::config& settings) {
    boost::asio::io_context loop;
    trial t{"database", false, {}, exit_done};
    try {
        postgres::connection connection(loop.get_executor());
        wait_for(loop, connection.open(connect_options_of(settings, "check"), base::milliseconds{10'000}));
        t.text = connection.description() + ", server " + connection.server_setting("server_version");
        connection.close();
        postgres::migrator migrator(loop.get_executor(), connect_options_of(settings, "check"), settings.database.schema);
        const auto list = wait_for(loop, migrator.status());
        const auto missing = std::count_if(list.begin(), list.end(), [](const auto& m) { return !m.applied; });
        t.good = true;
        const bool may = missing == 0 || wait_for(loop, migrator.may_apply());
        t.text += missing == 0 ? ", schema " + settings.database.schema + " is current"
                               : "; " + std::to_string(missing) + " migrations are not applied: run 'outboxd migrate'";
        if (!may) t.text += ", as a role that may create (GRANT CREATE ON DATABASE)";
    } catch (const base::failure& e) {
        t.text = e.why().text;
        t.code = exit_code_for(e.why());
    }
    return t;
}

// What keeps vacuum from the schema's tables: it works all the same for a while, so no hint is a fault.
trial look_at_vacuum(const config::config& settings) {
    boost::asio::io_context loop;
    trial t{"vacuum", true, "no dead rows pile up", exit_done};
    std::vector<std::string> hints;
    try {
        const postgres::statements sql(settings.database.schema);
        postgres::connection connection(loop.get_executor());
        const base::milliseconds deadline{10'000};
        wait_for(loop, connection.open(connect_options_of(settings, "check"), deadline));
        const auto listed = wait_for(loop, connection.query(sql.vacuum_hints, {}, deadline));
        for (int row = 0; row < listed.rows(); ++row) hints.push_back(listed.string(row, 0));
        const auto dead = wait_for(loop, connection.query(sql.dead_rows, {}, deadline));
        if (dead.rows() > 0) hints.push_back(dead.string(0, 1) + " dead rows in table " + dead.string(0, 0) + ", held by " + dead.string(0, 2));
        connection.close();
    } catch (const base::failure& e) {
        hints.push_back("not known: " + e.why().text);
    }
    if (!hints.empty()) t.text = "hint: " + joined(hints, "; ");
    return t;
}

// The way of a delivery up to where the request would be written.
trial try_endpoint(const std::shared_ptr<const config::config>& settings, const config::endpoint_config& endpoint) {
    trial t{"endpoint " + endpoint.name, false, {}, exit_done};
    ports::endpoint_row row;
    row.name = endpoint.name;
    row.url = endpoint.url;
    row.settings = endpoint.settings_json;
    row.managed_by = "config";
    for (const auto& s : endpoint.secrets) row.secrets.emplace_back(std::string{s.reveal()}, std::nullopt);
    relay::endpoint_directory directory(settings);
    (void)directory.adopt({row}, base::boot_clock::now());
    const auto ready = directory.find(endpoint.name);
    if (!ready || !ready->route) {
        t.text = ready ? ready->reason : "unknown";
        t.code = exit_bad_config;
        return t;
    }
    boost::asio::io_context loop;
    ports::send_reply reply;
    std::exception_ptr thrown;
    const auto deadline = base::boot_clock::now() + ready->settings.timeout;
    boost::asio::co_spawn(loop, https::probe(loop, sender_options_of(*settings), ready->route, deadline), [&](std::exception_ptr e, ports::send_reply r) {
        thrown = e;
        reply = std::move(r);
    });
    loop.run();
    if (thrown) std::rethrow_exception(thrown);
    t.good = reply.complete;
    t.code = t.good ? exit_done : exit_failed;
    if (!reply.complete) {
        t.text = std::string{lifecycle::to_string(reply.error_class)} + ": " + reply.error;
        return t;
    }
    t.text = ready->route->address.origin + " answers";
    const std::pair<const char*, int> phases[] = {{"dns", reply.phases.dns}, {"connect", reply.phases.connect}, {"tls", reply.phases.tls}};
    for (const auto& [name, ms] : phases) {
        if (ms >= 0) t.text += std::string{", "} + name + " " + std::to_string(ms) + " ms";
    }
    return t;
}

std::vector<trial> try_all(const config::config& settings) {
    std::vector<trial> trials{try_database(settings)};
    const auto shared = std::make_shared<const config::config>(settings);
    progress bar("endpoints tried", static_cast<std::int64_t>(settings.endpoints.size()));
    std::int64_t done = 0;
    for (const auto& e : settings.endpoints) {
        trials.push_back(try_endpoint(shared, e));
        bar.at(++done);
    }
    if (trials.front().good) trials.push_back(look_at_vacuum(settings));
    return trials;
}

void print_json_report(const config::load_result& loaded, bool good, const std::vector<trial>& trials) {
    admin::json_writer w;
    w.begin_object().member("ok", good).key("problems").begin_array();
    for (const auto& p : loaded.problems) {
        w.begin_object().member("file", p.file).member("line", p.line).member("key", p.key).member("text", p.text).member("warning", p.warning).end_object();
    }
    w.end_array().key("connect").begin_array();
    for (const auto& t : trials) w.begin_object().member("what", t.what).member("ok", t.good).member("text", t.text).end_object();
    w.end_array().end_object();
    print_json(w.text());
}

int check(const arguments& args) {
    const auto path = choose_config_path(args.get("--config"), args.get("--database"));
    const auto loaded = load_settings(path, args.get("--database"));
    const auto errors = std::count_if(loaded.problems.begin(), loaded.problems.end(), [](const auto& p) { return !p.warning; });
    const auto warnings = static_cast<std::ptrdiff_t>(loaded.problems.size()) - errors;
    std::vector<trial> trials;
    if (args.has("--connect") && loaded.value) trials = try_all(*loaded.value);
    int code = loaded.value ? exit_done : exit_bad_config;
    for (const auto& t : trials) {
        if (code == exit_done && !t.good) code = t.code;
    }
    if (args.json()) {
        print_json_report(loaded, code == exit_done, trials);
        return code;
    }
    print_problems(loaded.problems);
    for (const auto& t : trials) (t.good ? std::cout : std::cerr) << (t.good ? "" : "error: ") << t.what << ": " << base::printable(t.text, 1000) << '\n';
    const std::string counted =
        std::to_string(errors) + (errors == 1 ? " error, " : " errors, ") + std::to_string(warnings) + (warnings == 1 ? " warning" : " warnings");
    if (!loaded.value) {
        std::cerr << counted << '\n';
    } else {
        std::cout << (path.empty() ? "no file; defaults" : path) << ": the configuration is valid, " << loaded.value->endpoints.size() << " endpoints, "
                  << counted << '\n';
        if (args.has("--connect") && code != exit_done) std::cerr << "something could not be reached\n";
    }
    return code;
}

}  // namespace

std::vector<command> check_commands() {
    command c;
    c.name = "check";
    c.summary = "validates the configuration; --connect also tries what it names";
    c.about =
        "Every problem is reported at once with file and line. Exit code 78 when the configuration is bad; with --connect 69 when the database cannot be "
        "reached, 1 when an endpoint cannot.";
    c.flags = {{"--connect", "", "try the database, and DNS and TLS of every endpoint of the file, without sending anything"}};
    c.examples = {"outboxd check --config ./outboxd.yaml", "outboxd check --connect --json"};
    c.run = check;
    return {c};
}

}  // namespace outboxd::daemon
