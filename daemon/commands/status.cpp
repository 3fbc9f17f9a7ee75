// status: what waits, where, and who is working on it. Reads the database alone.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "admin/api_json.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

volatile std::sig_atomic_t watch_ended = 0;
void on_watch_interrupt(int) {
    watch_ended = 1;
}

std::string rate(double per_second) {
    char text[32];
    std::snprintf(text, sizeof text, per_second < 10 ? "%.2f/s" : "%.0f/s", per_second);
    return text;
}

std::string age(double seconds) {
    return seconds <= 0 ? "-" : base::describe_duration(base::milliseconds{static_cast<std::int64_t>(seconds * 1000)});
}
std::string counted(const ports::bounded_count& c) {
    return count_text(c.n, c.at_least);
}

void print_relays(const ports::status_report& s) {
    if (s.relays.empty()) {
        std::cout << '\n' << painted("no relay is running", colour::yellow) << '\n';
        return;
    }
    std::cout << '\n';
    table t({"RELAY", "NAME", "HOST", "PID", "VERSION", "STARTED", "STATE", "LISTENING", "IN FLIGHT"});
    for (const auto& r : s.relays) {
        t.row({std::to_string(r.id), r.name, r.host, std::to_string(r.pid), r.version, moment(r.started_at), r.alive ? "alive" : "lease ended",
               r.listening ? "yes" : "no", std::to_string(r.in_flight)});
    }
    t.print();
}

void print_report(const ports::status_report& s) {
    sheet head;
    head.line("database time", moment(s.now));
    head.line("schema", s.schema + ", version " + std::to_string(s.schema_version));
    head.line("due", counted(s.due) + (s.due.at_least ? " (about " + std::to_string(s.live_estimate) + " live rows)" : ""));
    head.line("oldest due", age(s.oldest_due_seconds));
    head.line("claimed", counted(s.claimed));
    head.line("scheduled", counted(s.scheduled));
    head.line("failed", counted(s.failed));
    head.line("unrouted", counted(s.unrouted));
    head.line("rates", "published " + rate(s.published_per_second) + ", retried " + rate(s.retried_per_second) + ", failed " + rate(s.failed_per_second) +
                           " over the last " + age(s.rate_window_seconds));
    head.print();
    print_relays(s);
    if (!s.lanes.empty()) {
        std::cout << '\n';
        table t({"LANE", "STATE", "DUE", "OLDEST", "SCHEDULED", "KEYED", "FAILED"});
        std::size_t shown = 0;
        for (const auto& l : s.lanes) {
            if (++shown > 30) break;
            t.row({l.lane, l.state, counted(l.due), age(l.oldest_due_seconds), counted(l.scheduled), counted(l.keyed), counted(l.failed)});
        }
        t.print();
        if (s.lanes.size() > 30)
            std::cout << painted("... and " + std::to_string(s.lanes.size() - 30) + (s.more_lanes ? " or more" : "") + " lanes; --json shows them",
                                 colour::grey)
                      << '\n';
    }
    if (!s.circuits.empty()) {
        std::cout << '\n';
        table t({"CIRCUIT", "STATE", "OPEN UNTIL", "OPENS", "LAST ERROR"});
        for (const auto& c : s.circuits) t.row({c.lane, c.state, moment(c.open_until), std::to_string(c.opens), c.last_error});
        t.print();
    }
    if (!s.blocked.empty()) {
        std::cout << '\n';
        table t({"BLOCKED KEY", "LANE", "BEHIND EVENT", "DELIVERY", "WAITING"});
        for (const auto& b : s.blocked) t.row({b.ordering_key, b.lane, b.event_id, std::to_string(b.delivery), counted(b.waiting)});
        t.print();
    }
}

int status(const arguments& args) {
    operator_session session(args);
    const auto interval = args.duration("--interval", base::milliseconds{2000});
    if (interval < base::milliseconds{200}) throw usage_error("--interval wants at least 200ms");
    if (args.has("--watch") && args.json()) throw usage_error("--watch and --json do not go together: --json prints one document");
    if (args.has("--watch")) {
        struct sigaction action {};
        action.sa_handler = on_watch_interrupt;  // no SA_RESTART: the sleep ends
        ::sigaction(SIGINT, &action, nullptr);
    }
    for (;;) {
        const auto report = session.get(session.store().status());
        if (args.json()) {
            print_json(admin::to_json(report));
            return exit_done;
        }
        if (args.has("--watch")) std::cout << (stdout_is_terminal() ? "\033[H\033[2J" : "---\n");
        print_report(report);
        if (!args.has("--watch")) return exit_done;
        std::cout << std::flush;
        if (!std::cout) return exit_failed;
        const auto pause = std::chrono::duration_cast<std::chrono::nanoseconds>(interval);
        const timespec wait{static_cast<time_t>(pause.count() / 1'000'000'000), static_cast<long>(pause.count() % 1'000'000'000)};
        if (watch_ended == 0) ::nanosleep(&wait, nullptr);
        if (watch_ended != 0) return exit_done;
    }
}

}  // namespace

std::vector<command> status_commands() {
    command c;
    c.name = "status";
    c.summary = "backlog, lag, lanes, circuits, relays, rates";
    c.about = "Reads the database alone, so it works with and without a running relay. Counts end at a limit, shown by a plus sign.";
    c.flags = {{"--watch", "", "again and again until interrupted"}, {"--interval", "D", "pause between two looks of --watch (default 2s)"}};
    c.examples = {"outboxd status", "outboxd status --watch", "outboxd status --json | jq .deliveries"};
    c.run = status;
    return {c};
}

}  // namespace outboxd::daemon
