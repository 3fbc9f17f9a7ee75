// delivery list, show, retry, cancel, unblock.
#include <algorithm>
#include <charconv>
#include <iostream>

#include "admin/api_json.hpp"
#include "admin/json_writer.hpp"
#include "admin/why.hpp"
#include "commands/attempts.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

std::int64_t delivery_number(const std::string& text) {
    std::int64_t id = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (fault != std::errc{} || end != text.data() + text.size() || id < 1)
        throw usage_error("a delivery is named by its number, not by '" + base_printable(text) + "'; 'outboxd delivery list' shows them");
    return id;
}

int list(const arguments& args) {
    ports::delivery_filter filter;
    filter.endpoint = args.get("--endpoint");
    filter.lane = args.get("--lane");
    filter.status = args.get("--status");
    if (filter.status && filter.status != "pending" && filter.status != "failed" && filter.status != "unrouted")
        throw usage_error("--status wants pending, failed or unrouted: finished deliveries are found by 'outboxd event show'");
    filter.event = args.get("--event");
    filter.after = args.number("--after", 0, 0, INT64_MAX);
    filter.limit = static_cast<int>(args.number("--limit", 50, 1, 10000));
    operator_session session(args);
    const auto rows = session.get(session.store().list_deliveries(filter));
    if (args.json()) {
        print_json(admin::to_json(rows));
        return exit_done;
    }
    table t({"ID", "EVENT ID", "TYPE", "ENDPOINT", "KEY", "STATUS", "ATTEMPTS", "DUE", "RELAY", "LAST ERROR"});
    for (const auto& d : rows) {
        t.row({std::to_string(d.id), d.event_id, d.event_type, d.endpoint.value_or(d.lane), d.ordering_key.value_or(""),
               d.blocks ? d.status + " (blocks)" : d.status, std::to_string(d.attempts), moment(d.due_at),
               d.claimed_by == 0 ? "" : std::to_string(d.claimed_by), d.last_error});
    }
    t.print();
    if (static_cast<int>(rows.size()) == filter.limit) std::cerr << "more: --after " << rows.back().id << '\n';
    return exit_done;
}

int show(const arguments& args) {
    const auto id = delivery_number(args.operands.at(0));
    operator_session session(args);
    const auto event = session.get(session.store().event_of_delivery(id));
    const auto facts = session.get(session.store().why(event));
    auto attempts = session.get(session.store().attempts_of_event(event, 10000));
    std::erase_if(attempts, [&](const ports::attempt_view& a) { return a.delivery != id; });
    const auto found = std::find_if(facts.begin(), facts.end(), [&](const ports::delivery_facts& f) { return f.delivery == id; });
    const auto rate = default_rate_of(session.settings());
    if (found == facts.end())
        throw base::failure(base::make_error(base::errc::not_found, "delivery " + std::to_string(id) + " was followed by another one of event " +
                                                                        std::to_string(event) + "; see 'outboxd event show'"));
    if (args.json()) {
        print_json(admin::to_json(*found, attempts, rate));
        return exit_done;
    }
    const auto& f = *found;
    sheet s;
    s.line("delivery", std::to_string(id));
    s.line("event", f.event_id + " (" + std::to_string(f.event) + ", " + f.event_type + ")");
    s.line("to", admin::target_of(f));
    s.line("status", f.status);
    s.line("attempts", std::to_string(f.attempts));
    if (f.ordering_key) s.line("ordering key", *f.ordering_key);
    if (f.due_at) s.line("due at", moment(f.due_at));
    if (f.expires_at) s.line("expires at", moment(f.expires_at));
    s.line("why", admin::explain(f, rate).text);
    s.print();
    print_attempts(attempts);
    return exit_done;
}

using one_call = ports::async_result<ports::retry_reply> (ports::operator_store::*)(std::int64_t);

// One call per delivery; all are tried, the exit code says whether all did.
int by_hand(const arguments& args, one_call call, const char* done_word) {
    std::vector<std::int64_t> ids;
    for (const auto& text : args.operands) ids.push_back(delivery_number(text));
    operator_session session(args);
    admin::json_writer w;
    w.begin_array();
    bool all = true;
    for (const auto id : ids) {
        const auto reply = session.get((session.store().*call)(id));
        const bool ok = reply.result == "ok";
        all = all && ok;
        w.begin_object().member("delivery", id).member("done", ok).member("result", ok ? std::string{done_word} : reply.result).end_object();
        if (!args.json() && ok) std::cout << "delivery " << id << ": " << done_word << '\n';
        if (!ok) std::cerr << "outboxd: delivery " << id << ": " << base_printable(reply.result) << '\n';
    }
    w.end_array();
    if (args.json()) print_json(w.text());
    return all ? exit_done : exit_failed;
}

int retry(const arguments& args) {
    return by_hand(args, &ports::operator_store::retry, "due now");
}
int cancel(const arguments& args) {
    return by_hand(args, &ports::operator_store::cancel, "cancelled");
}
int unblock(const arguments& args) {
    return by_hand(args, &ports::operator_store::unblock, "its ordering key goes on");
}

}  // namespace

std::vector<command> delivery_commands() {
    command l;
    l.name = "delivery list";
    l.summary = "live deliveries: pending, failed, unrouted";
    l.flags = {{"--endpoint", "NAME", "to this endpoint"},
               {"--lane", "LANE", "of this lane"},
               {"--status", "S", "pending, failed or unrouted"},
               {"--event", "ID", "of this event"},
               {"--after", "ID", "only deliveries after this one (the next page)"},
               {"--limit", "N", "at most N (default 50)"}};
    l.examples = {"outboxd delivery list --status failed", "outboxd delivery list --endpoint billing --json"};
    l.run = list;

    command s;
    s.name = "delivery show";
    s.summary = "a delivery and its attempts";
    s.operands = {{"ID", "number of the delivery"}};
    s.examples = {"outboxd delivery show 77"};
    s.run = show;

    const std::vector<operand> ids{{"ID", "number of a delivery", 1, -1}};
    command r;
    r.name = "delivery retry";
    r.summary = "tries deliveries again now; a failed one begins its schedule anew";
    r.operands = ids;
    r.examples = {"outboxd delivery retry 77 78"};
    r.run = retry;

    command c;
    c.name = "delivery cancel";
    c.summary = "ends deliveries unsent; an ordering key behind one goes on";
    c.operands = ids;
    c.examples = {"outboxd delivery cancel 77"};
    c.run = cancel;

    command u;
    u.name = "delivery unblock";
    u.summary = "lets the ordering key behind a failed delivery go on; the delivery stays failed";
    u.operands = ids;
    u.examples = {"outboxd delivery unblock 77"};
    u.run = unblock;
    return {l, s, r, c, u};
}

}  // namespace outboxd::daemon
