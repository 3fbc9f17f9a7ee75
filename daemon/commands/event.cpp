// event list, event show.
#include <iostream>

#include "admin/api_json.hpp"
#include "admin/why.hpp"
#include "commands/attempts.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

int list(const arguments& args) {
    ports::event_filter filter;
    filter.type = args.get("--type");
    filter.tenant = args.get("--tenant");
    filter.endpoint = args.get("--endpoint");
    filter.status = status_word(args);
    filter.since = args.moment("--since");
    filter.until = args.moment("--until");
    filter.before = args.number("--before", 0, 1, INT64_MAX);
    filter.limit = static_cast<int>(args.number("--limit", 50, 1, 10000));
    operator_session session(args);
    const auto events = session.get(session.store().list_events(filter));
    if (args.json()) {
        print_json(admin::to_json(events));
        return exit_done;
    }
    table t({"ID", "EVENT ID", "TYPE", "TENANT", "CREATED", "SIZE", "DELIVERIES"});
    for (const auto& e : events)
        t.row({std::to_string(e.id), e.event_id, e.event_type, e.tenant_id.value_or(""), moment(e.created_at), std::to_string(e.size), e.statuses});
    t.print();
    if (static_cast<int>(events.size()) == filter.limit) std::cerr << "more: --before " << events.back().id << '\n';
    return exit_done;
}

void print_event(const ports::event_view& e) {
    sheet s;
    s.line("id", std::to_string(e.id));
    s.line("event_id", e.event_id);
    s.line("type", e.event_type);
    s.line("created", moment(e.created_at));
    s.line("size", std::to_string(e.size) + " bytes");
    if (!e.content_type.empty()) s.line("content type", e.content_type);
    const std::pair<const char*, const std::optional<std::string>*> fields[] = {
        {"tenant", &e.tenant_id},          {"endpoint", &e.endpoint}, {"url", &e.url},       {"breaker key", &e.breaker_key},
        {"ordering key", &e.ordering_key}, {"subject", &e.subject},   {"source", &e.source}, {"traceparent", &e.traceparent}};
    for (const auto& [name, value] : fields) {
        if (*value) s.line(name, **value);
    }
    if (!e.header_names.empty()) s.line("headers", joined(e.header_names, ", ") + " (values not shown)");
    if (e.deliver_at) s.line("deliver at", moment(e.deliver_at));
    if (e.expires_at) s.line("expires at", moment(e.expires_at));
    if (e.max_attempts > 0) s.line("max attempts", std::to_string(e.max_attempts));
    s.print();
}

int show(const arguments& args) {
    operator_session session(args);
    const auto id = session.get(session.store().find_event(args.operands.at(0)));
    if (args.has("--body")) {
        if (args.json()) throw usage_error("--body prints the bytes as they are; leave --json away");
        std::cout << session.get(session.store().body(id)).bytes;
        return exit_done;
    }
    const auto event = session.get(session.store().show_event(id));
    const auto facts = session.get(session.store().why(id));
    const auto attempts = session.get(session.store().attempts_of_event(id, 1000));
    const auto rate = default_rate_of(session.settings());
    if (args.json()) {
        print_json(admin::to_json(event, facts, attempts, rate));
        return exit_done;
    }
    print_event(event);
    std::cout << '\n';
    table t({"DELIVERY", "ENDPOINT", "STATUS", "ATTEMPTS", "WHY"});
    for (const auto& f : facts)
        t.row({f.delivery == 0 ? "" : std::to_string(f.delivery), admin::target_of(f), f.status, std::to_string(f.attempts), admin::explain(f, rate).text});
    t.print();
    print_attempts(attempts);
    return exit_done;
}

}  // namespace

std::vector<command> event_commands() {
    command l;
    l.name = "event list";
    l.summary = "events, newest first";
    l.flags = {{"--type", "TYPE", "event type; 'order.*' matches any rest"},
               {"--tenant", "T", "of this tenant"},
               {"--endpoint", "NAME", "that went or go to this endpoint"},
               {"--status", "S", status_words()},
               {"--since", "TIME", "created at or after: 2026-11-30T08:00:00Z, 2026-11-30, or 2h (ago)"},
               {"--until", "TIME", "created before"},
               {"--before", "ID", "only older than the event with this number (the next page)"},
               {"--limit", "N", "at most N (default 50)"}};
    l.examples = {"outboxd event list --since 1h", "outboxd event list --type 'order.*' --status failed --json"};
    l.run = list;

    command s;
    s.name = "event show";
    s.summary = "an event, its deliveries and attempts";
    s.operands = {{"ID", "event_id, or the number of the event"}};
    s.flags = {{"--body", "", "print the body, byte for byte, and nothing else"}};
    s.examples = {"outboxd event show 1042", "outboxd event show 1042 --body > body.json"};
    s.run = show;
    return {l, s};
}

}  // namespace outboxd::daemon
