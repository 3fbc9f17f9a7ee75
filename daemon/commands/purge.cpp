// purge: what retention would do in its own time, now.
#include <iostream>
#include <thread>

#include "admin/json_writer.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

constexpr int batch = 1000;

// Retention walks by number from where it last stood, a step at a time: done is a whole round that removed nothing and left the walk over attempts where it was.
ports::purge_counts purge_all(operator_session& session) {
    const auto& keep = session.settings().retention;
    ports::purge_counts sum;
    std::int64_t removed_in_round = 0;
    std::int64_t attempts_at = -1;  // when the round began; the first round may have begun in the middle
    int idle = 0;
    progress bar("removed", 0);
    for (;;) {
        const auto step = session.get(session.store().purge(keep.published, keep.failed, keep.attempts, batch));
        if (step.ran_at == sum.ran_at) {
            if (++idle > 50) throw base::failure(base::make_error(base::errc::database_busy, "another process is at retention; try again later"));
            std::this_thread::sleep_for(std::chrono::milliseconds{100});
            continue;
        }
        idle = 0;
        const auto removed = step.events + step.deliveries + step.attempts;
        removed_in_round += removed;
        sum = {sum.events + step.events, sum.deliveries + step.deliveries, sum.attempts + step.attempts, step.events_at, step.attempts_at, step.ran_at};
        if (removed > 0) bar.at(sum.events + sum.deliveries + sum.attempts, "events " + std::to_string(sum.events));
        if (step.events_at != 0) continue;
        if (removed_in_round == 0 && step.attempts_at == attempts_at) return sum;
        attempts_at = step.attempts_at;
        removed_in_round = 0;
    }
}

int purge(const arguments& args) {
    operator_session session(args);
    const auto sum = purge_all(session);
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
