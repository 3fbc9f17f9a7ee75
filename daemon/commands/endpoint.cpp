// endpoint list, show, enable, disable, pause, resume, remove.
#include <iostream>
#include <thread>

#include "admin/api_json.hpp"
#include "admin/json_writer.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"
#include "postgres/endpoint_sync.hpp"

namespace outboxd::daemon {
namespace {

std::string state_of(const ports::endpoint_view& e) {
    if (!e.enabled) return "disabled";
    if (e.paused) return "paused";
    return e.circuit_state.empty() ? "ok" : "circuit " + e.circuit_state;
}

int list(const arguments& args) {
    operator_session session(args);
    const auto endpoints = session.get(session.store().list_endpoints());
    if (args.json()) {
        print_json(admin::to_json(endpoints));
        return exit_done;
    }
    table t({"NAME", "STATE", "URL", "EVENTS", "TENANT", "PENDING", "FAILED", "MANAGED BY"});
    for (const auto& e : endpoints) {
        t.row({e.name, state_of(e), e.url, joined(e.events, ","), e.tenant_id.value_or(""), count_text(e.pending.n, e.pending.at_least),
               count_text(e.failed.n, e.failed.at_least), e.managed_by});
    }
    t.print();
    return exit_done;
}

int show(const arguments& args) {
    operator_session session(args);
    const auto e = session.get(session.store().show_endpoint(args.operands.at(0)));
    if (args.json()) {
        print_json(admin::to_json(e));
        return exit_done;
    }
    sheet s;
    s.line("name", e.name);
    s.line("state", state_of(e));
    if (!e.disabled_reason.empty()) s.line("disabled because", e.disabled_reason + (e.disabled_at ? ", " + moment(e.disabled_at) : ""));
    s.line("url", e.url);
    s.line("events", joined(e.events, ", "));
    if (e.tenant_id) s.line("tenant", *e.tenant_id);
    s.line("managed by", e.managed_by);
    s.line("settings", e.settings);
    s.line("pending", count_text(e.pending.n, e.pending.at_least));
    s.line("failed", count_text(e.failed.n, e.failed.at_least));
    if (e.last_success_at) s.line("last success", moment(e.last_success_at));
    if (e.failing_since) s.line("failing since", moment(e.failing_since));
    s.line("created", moment(e.created_at));
    s.line("updated", moment(e.updated_at));
    s.line("secrets", e.secrets.empty() ? "none: requests are not signed" : std::to_string(e.secrets.size()));
    s.print();
    for (const auto& secret : e.secrets)
        std::cout << "  secret " << secret.id << ", made " << moment(secret.created_at)
                  << (secret.expires_at ? ", signs until " + moment(secret.expires_at) : "") << '\n';
    return exit_done;
}

int changed(const arguments& args, std::string_view state) {
    const auto& name = args.operands.at(0);
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("name", name).member("state", state).end_object();
        print_json(w.text());
    } else {
        std::cout << "endpoint " << base_printable(name) << ": " << state << '\n';
    }
    return exit_done;
}

// What the file disables or pauses is so again after the next start or reload; what an operator stops stays stopped.
void warn_if_from_file(operator_session& session, const std::string& name, const char* key) {
    if (session.get(session.store().show_endpoint(name)).managed_by != "config") return;
    std::cerr << "note: endpoint " << base_printable(name) << " comes from the configuration file; when the file says '" << key
              << "', that holds again at the next start or reload\n";
}

int enable(const arguments& args) {
    operator_session session(args);
    session.get(session.store().set_enabled(args.operands.at(0), true, ""));
    warn_if_from_file(session, args.operands.at(0), "enabled: false");
    return changed(args, "enabled");
}

int disable(const arguments& args) {
    operator_session session(args);
    session.get(session.store().set_enabled(args.operands.at(0), false, args.get("--reason").value_or("by operator")));
    return changed(args, "disabled");
}

int pause(const arguments& args) {
    operator_session session(args);
    session.get(session.store().set_paused(args.operands.at(0), true));
    return changed(args, "paused");
}

int resume(const arguments& args) {
    operator_session session(args);
    session.get(session.store().set_paused(args.operands.at(0), false));
    warn_if_from_file(session, args.operands.at(0), "paused: true");
    return changed(args, "resumed");
}

// What a relay has on the wire is waited for: it ends by itself within its endpoint's timeout, or by the end of the relay's lease.
int remove(const arguments& args) {
    const auto& name = args.operands.at(0);
    const auto patience = args.duration("--timeout", base::milliseconds{120'000});
    operator_session session(args);
    const auto before = session.get(session.store().show_endpoint(name));
    if (before.managed_by == "config" && before.disabled_reason != postgres::removed_reason) {
        throw base::failure(base::make_error(
            base::errc::refused,
            "endpoint '" + name + "' comes from the configuration file; take it out there and run 'outboxd migrate' or reload, then remove it"));
    }
    const auto give_up = std::chrono::steady_clock::now() + patience;
    std::int64_t cancelled = 0;
    progress bar("cancelled", 0);
    for (;;) {
        const auto step = session.get(session.store().remove_endpoint(name));
        cancelled += step.cancelled;
        bar.at(cancelled);
        if (step.gone) break;
        if (step.cancelled > 0) continue;
        if (std::chrono::steady_clock::now() >= give_up) {
            throw base::failure(base::make_error(
                base::errc::refused,
                "endpoint '" + name + "' still has deliveries claimed by a relay; it is disabled and matches nothing any more, run the command again later"));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds{200});
    }
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("name", name).member("state", "removed").member("cancelled", cancelled).end_object();
        print_json(w.text());
    } else {
        std::cout << "endpoint " << base_printable(name) << ": removed, " << cancelled << " deliveries cancelled\n";
    }
    return exit_done;
}

command named(const char* name, const char* summary, int (*run)(const arguments&)) {
    command c;
    c.name = name;
    c.summary = summary;
    c.operands = {{"NAME", "name of the endpoint"}};
    c.examples = {std::string{"outboxd "} + name + " billing"};
    c.run = run;
    return c;
}

}  // namespace

std::vector<command> endpoint_commands() {
    command l;
    l.name = "endpoint list";
    l.summary = "endpoints with their state and backlog";
    l.examples = {"outboxd endpoint list", "outboxd endpoint list --json"};
    l.run = list;
    auto d = named("endpoint disable", "stops sending; deliveries wait and use up no attempt", disable);
    d.flags = {{"--reason", "TEXT", "why, for 'why' and 'endpoint show' (default: by operator)"}};
    auto r = named("endpoint remove", "removes an endpoint; its deliveries end cancelled", remove);
    r.flags = {{"--timeout", "D", "how long to wait for deliveries on the wire (default 2m)"}};
    return {l,
            named("endpoint show", "an endpoint, its settings and the ages of its secrets", show),
            named("endpoint enable", "sends again what waited while it was disabled", enable),
            d,
            named("endpoint pause", "holds deliveries back; they accumulate", pause),
            named("endpoint resume", "goes on after a pause", resume),
            r};
}

}  // namespace outboxd::daemon
