// why: one line per delivery of an event, naming the cause.
#include "admin/why.hpp"

#include <iostream>

#include "admin/api_json.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

colour colour_of(admin::cause c) {
    switch (c) {
        case admin::cause::published: return colour::green;
        case admin::cause::failed:
        case admin::cause::expired:
        case admin::cause::cancelled: return colour::red;
        default: return colour::yellow;
    }
}

int why(const arguments& args) {
    operator_session session(args);
    const auto event = session.get(session.store().find_event(args.operands.at(0)));
    const auto facts = session.get(session.store().why(event));
    const auto rate = default_rate_of(session.settings());
    if (args.json()) {
        print_json(admin::to_json(facts, rate));
        return exit_done;
    }
    for (const auto& f : facts) {
        const auto e = admin::explain(f, rate);
        std::cout << painted(base_printable(admin::target_of(f)), colour::bold) << ": " << painted(base_printable(e.text), colour_of(e.why)) << '\n';
    }
    if (facts.size() == 10000) std::cerr << "only the first 10000 deliveries are shown\n";
    return exit_done;
}

}  // namespace

std::vector<command> why_commands() {
    command c;
    c.name = "why";
    c.summary = "why an event is not delivered yet, or how it ended";
    c.about = "One line per delivery. Takes the event's public id or its number. Exit code 1 when there is no such event.";
    c.operands = {{"EVENT_ID", "event_id, or the number of the event"}};
    c.examples = {"outboxd why 7b0c6a0e-51f1-4d9e-8f0f-3a52a5c1c0de", "outboxd why 1042 --json"};
    c.run = why;
    return {c};
}

}  // namespace outboxd::daemon
