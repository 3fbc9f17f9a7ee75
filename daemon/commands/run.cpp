// run and drain: argument handling; the work is in app.
#include "app.hpp"
#include "commands/command.hpp"
#include "settings.hpp"

namespace outboxd::daemon {
namespace {

int run(const arguments& args) {
    run_options options;
    options.database_flag = args.get("--database");
    options.config_path = choose_config_path(args.get("--config"), options.database_flag);
    return run_relay(std::move(options));
}

int drain(const arguments& args) {
    drain_options options;
    options.database_flag = args.get("--database");
    options.config_path = choose_config_path(args.get("--config"), options.database_flag);
    options.max_passes = static_cast<int>(args.number("--max-passes", 0, 1, 1'000'000));
    options.timeout = args.duration("--timeout", base::milliseconds{0});
    options.json = args.json();
    return run_drain(std::move(options));
}

}  // namespace

std::vector<command> run_commands() {
    command r;
    r.name = "run";
    r.summary = "the daemon: delivers until it is told to stop";
    r.about = "TERM and INT finish what is on the wire, hand the rest back and exit 0; a second one aborts and exits 1. HUP reads the configuration again.";
    r.examples = {"outboxd run", "outboxd run --config ./outboxd.yaml", "OUTBOXD_DATABASE_URL=postgresql://outboxd@localhost/app outboxd run"};
    r.run = run;
    r.prints = false;

    command d;
    d.name = "drain";
    d.summary = "delivers all that is due, then exits";
    d.about = "Prints 'published N, retried N, failed N, remaining N, scheduled N'. Exit code 3 when something remains or failed.";
    d.flags = {{"--max-passes", "N", "stop after N passes over what is due"}, {"--timeout", "D", "stop after this time: 30s, 10m"}};
    d.examples = {"outboxd drain", "outboxd drain --timeout 5m --json"};
    d.run = drain;
    return {r, d};
}

}  // namespace outboxd::daemon
