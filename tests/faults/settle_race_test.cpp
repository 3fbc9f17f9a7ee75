// A result is written, but its reply is slow or lost, and the delivery is claimed again before the relay knows.
#include "relay_bench.hpp"
#include "support/catch.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
using testkit::receiver_act;
using testkit::store_fault;

namespace {

struct race {
    const char* name;
    store_fault first_settle;
};
const race races[] = {
    {"slow", {store_fault::kind::slow, base::errc::timeout, 0ms, 3s}},
    {"lost", {store_fault::kind::reply_lost, base::errc::timeout, 3s}},
};

int lines_of(const testkit::fake_database& database, const std::string& outcome) {
    return static_cast<int>(std::count_if(database.attempts.begin(), database.attempts.end(), [&](const auto& a) { return a.outcome == outcome; }));
}

}  // namespace

TEST_CASE("a retry whose reply comes after the next claim counts once, and the new claim is kept") {
    for (const auto& r : races) {
        INFO("the reply is " << r.name);
        faults::relay_bench b;
        b.add_endpoint("good");
        b.insert("good");
        int settles = 0;
        b.process().store.on_call([&](int, std::string_view call) -> std::optional<store_fault> {
            if (call != "settle" || ++settles != 1) return std::nullopt;
            return r.first_settle;
        });
        b.process().sender.on_send([](const testkit::sent_request& q) { return q.attempt == 1 ? receiver_act::answer(500) : receiver_act::answer(200); });
        b.start();
        b.run_for(20s);
        CHECK(lines_of(b.database, "retried") == 1);
        CHECK(lines_of(b.database, "published") == 1);
        CHECK(b.database.deliveries.empty());
        CHECK(b.watch.report().empty());
    }
}

TEST_CASE("a release whose reply comes after the next claim leaves no claim behind") {
    faults::relay_bench b;
    b.add_endpoint("good");
    for (int i = 0; i < 3; ++i) b.insert("good");
    int settles = 0;
    b.process().store.on_call([&](int, std::string_view call) -> std::optional<store_fault> {
        if (call == "settle" && ++settles == 1) return store_fault{store_fault::kind::slow, base::errc::timeout, 0ms, 4s};
        // The claim comes back when the endpoint has just been paused: its rows are handed back at once.
        if (call == "claim" && b.database.count().due > 0 && settles == 0) return store_fault{store_fault::kind::slow, base::errc::timeout, 100ms, 1s};
        return std::nullopt;
    });
    b.start();
    b.run_for(200ms);
    b.pause("good", true);
    b.run_for(1500ms);
    b.pause("good", false);
    b.run_for(30s);
    CHECK(settles > 0);
    CHECK(b.database.deliveries.empty());
    CHECK(b.watch.report().empty());
}
