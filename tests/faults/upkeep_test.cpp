// What a relay does about its schema and its maintenance when the database says no.
#include "relay_bench.hpp"
#include "support/catch.hpp"

using namespace outboxd;
using namespace std::chrono_literals;

namespace {

// How much each statement of the two passes was asked to take on; the first few of each are ended by a time-out.
struct batches {
    std::vector<int> sweeps, rescues;
    static constexpr std::size_t too_long = 3;
};

class short_of_time final : public testkit::store_layer {
public:
    short_of_time(ports::delivery_store& below, batches& seen) : store_layer(below), seen_(seen) {}
    ports::async_result<std::int64_t> sweep(int batch) override {
        seen_.sweeps.push_back(batch);
        if (seen_.sweeps.size() <= batches::too_long) co_return base::make_error(base::errc::database_busy, "canceling statement due to statement timeout");
        auto found = co_await below_.sweep(batch);
        co_return found;
    }
    ports::async_result<std::vector<ports::rescued_row>> rescue(std::int64_t relay, int max_rescues, int limit) override {
        seen_.rescues.push_back(limit);
        if (seen_.rescues.size() <= batches::too_long) co_return base::make_error(base::errc::database_busy, "canceling statement due to statement timeout");
        auto rows = co_await below_.rescue(relay, max_rescues, limit);
        co_return rows;
    }

private:
    batches& seen_;
};

// A schema that somebody changed: claims fail, and the look at its shape names the cause.
struct schema {
    bool moved{false};
    int claims{0};
};

class moved_schema final : public testkit::store_layer {
public:
    moved_schema(ports::delivery_store& below, schema& state) : store_layer(below), state_(state) {}
    ports::async_result<ports::claim_reply> claim(ports::claim_request request) override {
        ++state_.claims;
        if (state_.moved) co_return base::make_error(base::errc::database_schema, "column d.due_at does not exist (SQLSTATE 42703)");
        auto reply = co_await below_.claim(std::move(request));
        co_return reply;
    }
    ports::async_result<void> check_ready() override {
        if (state_.moved) co_return base::make_error(base::errc::database_schema, "column delivery.due_at is missing");
        auto ready = co_await below_.check_ready();
        co_return ready;
    }

private:
    schema& state_;
};

}  // namespace

TEST_CASE("a rescue and a sweep that take too long take on half as much the next time, and grow again") {
    batches seen;
    faults::relay_bench b{[&](ports::delivery_store& below) { return std::make_unique<short_of_time>(below, seen); }};
    b.start();
    b.run_for(300s);
    for (const auto* asked : {&seen.sweeps, &seen.rescues}) {
        REQUIRE(asked->size() > 6);
        for (std::size_t i = 0; i < batches::too_long; ++i) CHECK((*asked)[i + 1] == (*asked)[i] / 2);
        CHECK((*asked)[batches::too_long + 1] > (*asked)[batches::too_long]);
        CHECK(asked->back() == asked->front());
    }
}

TEST_CASE("[B77] a claim that meets another schema ends claiming until the shape fits again, and the lease goes on") {
    schema state;
    faults::relay_bench b{[&](ports::delivery_store& below) { return std::make_unique<moved_schema>(below, state); }};
    b.add_endpoint("good");
    b.start();
    b.run_for(2s);
    state.moved = true;
    b.insert("good");
    b.run_for(5s);
    const auto blind = state.claims;
    CHECK(!b.process().engine().look().ready);
    CHECK(b.process().engine().look().reason == "column delivery.due_at is missing");
    b.run_for(120s);
    CHECK(state.claims == blind);
    CHECK(b.database.deliveries.size() == 1);
    state.moved = false;
    b.run_for(10s);
    CHECK(b.process().engine().look().ready);
    CHECK(b.database.deliveries.empty());
    CHECK(b.database.relays.size() == 1);
    CHECK(b.watch.report().empty());
}
