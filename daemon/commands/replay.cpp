// replay: sends events again, one by one or by filter; throttled, and resumable by the number of the last event.
#include <csignal>
#include <ctime>
#include <iostream>
#include <set>
#include <thread>

#include "admin/json_writer.hpp"
#include "commands/attempts.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

// What a bulk replay does in a second where --rate says nothing: an outbox that works beside it must not notice.
constexpr double default_rate = 500;

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) {
    interrupted = 1;
}

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

struct tally {
    std::int64_t replayed{0}, pending{0}, refused{0}, last_event{0};
    bool finished{true};
};

bool accepted(const std::string& result) {
    return result == "replayed" || result == "already pending";
}

// Keeps an average of `per_second` without bursts larger than a quarter of a second.
class pace {
public:
    explicit pace(double per_second) : per_second_(per_second) {}
    [[nodiscard]] std::size_t batch() const { return static_cast<std::size_t>(std::min(100.0, std::max(1.0, per_second_ / 4))); }
    void spent(std::size_t n) {
        next_ = std::max(next_, std::chrono::steady_clock::now()) +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(static_cast<double>(n) / per_second_));
        while (interrupted == 0 && std::chrono::steady_clock::now() < next_) {
            std::this_thread::sleep_for(
                std::min<std::chrono::steady_clock::duration>(next_ - std::chrono::steady_clock::now(), std::chrono::milliseconds{100}));
        }
    }

private:
    double per_second_;
    std::chrono::steady_clock::time_point next_{};
};

void put_row(admin::json_writer& w, std::int64_t event, const std::optional<std::string>& endpoint, std::int64_t delivery, const std::string& result,
             const std::string& new_id) {
    w.begin_object();
    if (event != 0) w.member("event", event);
    w.member("endpoint", endpoint);
    if (delivery != 0) w.member("delivery", delivery);
    if (!new_id.empty()) w.member("new_event_id", new_id);
    w.member("result", result).end_object();
}

// Named events: each answered for by itself.
int replay_named(const arguments& args, operator_session& session) {
    const auto endpoint = args.get("--endpoint");
    admin::json_writer w;
    w.begin_array();
    bool all = true;
    pace speed(args.rate("--rate").value_or(default_rate));
    const auto tell = [&](const std::string& name, const ports::replay_row& r, const std::string& new_id) {
        const bool good = accepted(r.result);
        all = all && good;
        put_row(w, r.event, r.endpoint, r.delivery, r.result, new_id);
        const std::string line = "event " + base_printable(name) + (r.endpoint ? " to " + *r.endpoint : "") + ": " + base_printable(r.result) +
                                 (new_id.empty() ? "" : " as event " + new_id);
        if (good && !args.json()) std::cout << line << '\n';
        if (!good) std::cerr << "outboxd: " << line << '\n';
    };
    for (const auto& name : args.operands) {
        if (interrupted != 0) return exit_failed;
        ports::replay_row row;
        row.endpoint = endpoint;
        try {
            row.event = session.get(session.store().find_event(name));
        } catch (const base::failure& e) {
            if (e.why().code != base::errc::not_found) throw;
            row.result = "no such event";
            tell(name, row, "");
            continue;
        }
        if (args.has("--dry-run")) {
            row.result = "replayed";
            if (!args.json()) std::cout << "event " << base_printable(name) << ": would be replayed\n";
            put_row(w, row.event, row.endpoint, 0, "would be replayed", "");
            continue;
        }
        if (args.has("--new-id")) {
            row.result = "replayed";
            tell(name, row, session.get(session.store().copy_event(row.event, endpoint)));
        } else {
            const auto rows = session.get(session.store().replay({{row.event, endpoint}}));
            for (const auto& r : rows) tell(name, r, "");
            row.result = "nothing to send it to: no endpoint matches";
            if (rows.empty()) tell(name, row, "");
        }
        speed.spent(1);
    }
    w.end_array();
    if (args.json()) print_json(w.text());
    return all ? exit_done : exit_failed;
}

// One batch of what the filter found.
void replay_batch(const arguments& args, operator_session& session, const std::vector<ports::replay_candidate>& batch, bool by_endpoint, tally& t) {
    if (args.has("--new-id")) {
        for (const auto& c : batch) {
            (void)session.get(session.store().copy_event(c.event, by_endpoint ? c.endpoint : std::nullopt));
            ++t.replayed;
        }
        return;
    }
    std::vector<ports::replay_target> targets;
    for (const auto& c : batch) targets.push_back({c.event, c.endpoint});
    for (const auto& r : session.get(session.store().replay(std::move(targets)))) {
        if (r.result == "replayed") {
            ++t.replayed;
        } else if (r.result == "already pending") {
            ++t.pending;
        } else {
            ++t.refused;
            std::cerr << "outboxd: event " << r.event << (r.endpoint ? " to " + *r.endpoint : "") << ": " << base_printable(r.result) << '\n';
        }
    }
}

// What a page gives to send: live deliveries are on their way already and are left alone unless --status names them; a new event is made once per event.
std::vector<ports::replay_candidate> chosen(const arguments& args, std::vector<ports::replay_candidate> found, bool by_endpoint, tally& t) {
    const bool named = args.has("--status");
    std::vector<ports::replay_candidate> list;
    std::int64_t last = 0;
    for (auto& c : found) {
        if (!named && (c.status == "pending" || c.status == "retrying" || c.status == "unrouted")) {
            ++t.pending;
            continue;
        }
        if (args.has("--new-id") && !by_endpoint && c.event == last) continue;
        last = c.event;
        list.push_back(std::move(c));
    }
    return list;
}

void report(const arguments& args, const tally& t) {
    if (args.json()) {
        admin::json_writer w;
        w.begin_object()
            .member("replayed", t.replayed)
            .member("already_pending", t.pending)
            .member("refused", t.refused)
            .member("last_event", t.last_event)
            .member("finished", t.finished)
            .end_object();
        print_json(w.text());
    } else {
        std::cout << "replayed " << t.replayed << ", already pending " << t.pending << ", refused " << t.refused << '\n';
    }
    if (!t.finished) std::cerr << "interrupted; the same command with --after " << t.last_event << " goes on\n";
}

int replay_filtered(const arguments& args, operator_session& session) {
    ports::replay_filter filter;
    filter.type = args.get("--type");
    filter.tenant = args.get("--tenant");
    filter.endpoint = args.get("--endpoint");
    filter.status = status_word(args);
    filter.since = args.moment("--since");
    filter.until = args.moment("--until");
    filter.after = args.number("--after", 0, 0, INT64_MAX);
    const bool by_endpoint = filter.endpoint.has_value() || filter.status.has_value();
    const bool dry = args.has("--dry-run");
    tally t;
    t.last_event = filter.after;
    pace speed(args.rate("--rate").value_or(default_rate));
    admin::json_writer w;
    w.begin_array();
    table listed({"EVENT", "EVENT ID", "TYPE", "ENDPOINT", "STATUS"});
    progress bar(dry ? "looked through" : "replayed", 0);
    for (bool end = false; !end && interrupted == 0;) {
        const auto page = session.get(session.store().replay_candidates(filter));
        end = page.end;
        const auto list = chosen(args, page.found, by_endpoint, t);
        for (std::size_t from = 0; from < list.size() && interrupted == 0; from += speed.batch()) {
            const std::vector<ports::replay_candidate> batch(list.begin() + static_cast<std::ptrdiff_t>(from),
                                                             list.begin() + static_cast<std::ptrdiff_t>(std::min(list.size(), from + speed.batch())));
            if (dry) {
                for (const auto& c : batch) {
                    listed.row({std::to_string(c.event), c.event_id, c.event_type, c.endpoint.value_or(""), c.status});
                    w.begin_object()
                        .member("event", c.event)
                        .member("event_id", c.event_id)
                        .member("event_type", c.event_type)
                        .member("endpoint", c.endpoint)
                        .member("status", c.status)
                        .end_object();
                }
                continue;
            }
            replay_batch(args, session, batch, by_endpoint, t);
            // The last event of a batch may have more endpoints in the next one: going on after the one before it repeats no more than a pending delivery.
            t.last_event = batch.back().event - (from + batch.size() < list.size() && list[from + batch.size()].event == batch.back().event ? 1 : 0);
            bar.at(t.replayed, "last event " + std::to_string(t.last_event));
            speed.spent(batch.size());
        }
        if (interrupted == 0 && page.next_after > 0) {
            filter.after = page.next_after;
            t.last_event = page.next_after;
        }
        bar.at(t.replayed, "last event " + std::to_string(t.last_event));
    }
    t.finished = interrupted == 0;
    if (dry) {
        w.end_array();
        if (args.json()) {
            print_json(w.text());
        } else {
            listed.print();
        }
        return t.finished ? exit_done : exit_failed;
    }
    report(args, t);
    return t.finished && t.refused == 0 ? exit_done : exit_failed;
}

int replay(const arguments& args) {
    bool filtered = false;
    for (const auto* name : {"--type", "--tenant", "--since", "--until", "--status", "--after"}) {
        if (!args.has(name)) continue;
        filtered = true;
        if (!args.operands.empty()) throw usage_error(std::string{name} + " selects events; it does not go with EVENT_ID");
    }
    if (args.operands.empty() && !filtered && !args.has("--endpoint"))
        throw usage_error("'replay' wants EVENT_ID... or at least one of --endpoint, --type, --tenant, --since, --until, --status");
    (void)args.rate("--rate");
    operator_session session(args);
    catch_interrupts();
    return args.operands.empty() ? replay_filtered(args, session) : replay_named(args, session);
}

}  // namespace

std::vector<command> replay_commands() {
    command c;
    c.name = "replay";
    c.summary = "sends events again";
    c.about =
        "The same event with the same id and the same bytes, so that receivers can tell it from a new one; --new-id copies it into a new event instead.\n"
        "By filter: finished and failed deliveries in order of their events, at --rate; what is still pending is left alone. Interrupted, it prints where to "
        "go on.";
    c.operands = {{"EVENT_ID", "event_id, or the number of an event", 0, -1}};
    c.flags = {{"--endpoint", "NAME", "only to this endpoint"},
               {"--type", "TYPE", "of this type; 'order.*' matches any rest"},
               {"--tenant", "T", "of this tenant"},
               {"--since", "TIME", "created at or after: 2026-11-30T08:00:00Z, 2026-11-30, or 2h (ago)"},
               {"--until", "TIME", "created before"},
               {"--status", "S", status_words()},
               {"--after", "ID", "only events after this number: goes on with an interrupted replay"},
               {"--dry-run", "", "show what would be sent again"},
               {"--rate", "N/s", "deliveries in a second (default 500/s)"},
               {"--new-id", "", "as a new event, copied from the old"}};
    c.examples = {"outboxd replay 7b0c6a0e-51f1-4d9e-8f0f-3a52a5c1c0de", "outboxd replay --endpoint billing --status failed --rate 50/s",
                  "outboxd replay --type 'order.*' --since 2026-11-30 --dry-run"};
    c.run = replay;
    return {c};
}

}  // namespace outboxd::daemon
