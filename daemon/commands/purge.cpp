// purge: what retention would do in its own time, now.
#include <iostream>

#include "admin/json_writer.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

int purge(const arguments& args) {
    operator_session session(args);
    const auto& keep = session.settings().retention;
    ports::purge_counts sum;
    progress bar("removed", 0);
    for (;;) {
        const auto step = session.get(session.store().purge(keep.published, keep.failed, keep.attempts, 1000));
        if (step.events == 0 && step.deliveries == 0 && step.attempts == 0) break;
        sum.events += step.events;
        sum.deliveries += step.deliveries;
        sum.attempts += step.attempts;
        bar.at(sum.events + sum.deliveries + sum.attempts, "events " + std::to_string(sum.events));
    }
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("events", sum.events).member("deliveries", sum.deliveries).member("attempts", sum.attempts).end_object();
        print_json(w.text());
    } else {
        std::cout << "removed events " << sum.events << ", deliveries " << sum.deliveries << ", attempts " << sum.attempts << '\n';
    }
    return exit_done;
}

}  // namespace

std::vector<command> purge_commands() {
    command c;
    c.name = "purge";
    c.summary = "retention, now";
    c.about = "Removes what is older than retention.published, retention.failed and retention.attempts of the configuration, in small batches.";
    c.examples = {"outboxd purge", "outboxd purge --json"};
    c.run = purge;
    return {c};
}

}  // namespace outboxd::daemon
