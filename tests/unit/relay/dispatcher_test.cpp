#include "relay/dispatcher.hpp"

#include <map>
#include <vector>

#include "support/catch.hpp"
#include "support/virtual_time.hpp"

using namespace outboxd;
using namespace std::chrono_literals;

namespace {

// A dispatcher whose started rows are kept, as if each request hung until finish().
struct bench {
    explicit bench(int max_in_flight) : lanes({max_in_flight, 64 << 20}, lease, time) {
        lease.renewed(time.now());
        lanes.on_start([this](relay::held_ptr row) { started.push_back(std::move(row)); });
        lanes.on_more([this] { more = true; });
    }
    void endpoint(const std::string& name, int concurrency, double rate = 0) {
        auto to = std::make_shared<relay::endpoint>();
        to->name = name;
        to->usable = true;
        to->settings.concurrency = concurrency;
        auto& l = lanes.at(name);
        l.to = to;
        l.window.configure(concurrency, false);
        l.bucket.configure(rate, 1, time.now());
    }
    void add(const std::string& lane, int n) {
        for (int i = 0; i < n; ++i) {
            auto row = std::make_unique<relay::held>();
            row->row.delivery = ++last_id;
            row->row.lane = lane;
            row->row.event.body = "{}";
            row->home = &lanes.at(lane);
            REQUIRE(lanes.enqueue(std::move(row)));
        }
    }
    // The relay's loop calls again when it is asked to.
    void dispatch() {
        do {
            more = false;
            lanes.dispatch();
        } while (more);
    }
    std::map<std::string, int> on_wire() const {
        std::map<std::string, int> n;
        for (const auto& row : started) ++n[row->row.lane];
        return n;
    }
    void finish_one(const std::string& lane) {
        for (auto it = started.begin(); it != started.end(); ++it) {
            if ((*it)->row.lane != lane) continue;
            lanes.finished(*(*it)->home, 2);
            lanes.forget((*it)->row.delivery);
            started.erase(it);
            dispatch();
            return;
        }
        FAIL("nothing of " << lane << " is on the wire");
    }

    boost::asio::io_context context;
    tests::virtual_time time{context, 1};
    lifecycle::lease lease{60s};
    relay::dispatcher lanes;
    std::vector<relay::held_ptr> started;
    std::int64_t last_id{0};
    bool more{false};
};

}  // namespace

TEST_CASE("[B54] slow lanes that could fill every slot leave an eighth to lanes with nothing in flight") {
    bench b(80);
    for (int i = 0; i < 20; ++i) {
        b.endpoint("slow" + std::to_string(i), 64);
        b.add("slow" + std::to_string(i), 64);
    }
    b.dispatch();
    CHECK(b.lanes.in_flight() == 70);
    b.endpoint("fast", 64);
    b.add("fast", 1);
    b.dispatch();
    CHECK(b.on_wire()["fast"] == 1);
}

TEST_CASE("a free slot goes to the lane with the least in flight") {
    bench b(16);
    b.endpoint("a", 64);
    b.endpoint("b", 64);
    b.add("a", 100);
    b.dispatch();
    CHECK(b.on_wire()["a"] == 14);
    b.add("b", 100);
    b.dispatch();
    CHECK(b.on_wire()["b"] == 1);
    for (int i = 0; i < 8; ++i) b.finish_one("a");
    CHECK(std::abs(b.on_wire()["a"] - b.on_wire()["b"]) <= 2);
}

TEST_CASE("a lane never has more in flight than its concurrency") {
    bench b(1024);
    b.endpoint("a", 5);
    b.add("a", 50);
    b.dispatch();
    CHECK(b.started.size() == 5);
    b.finish_one("a");
    CHECK(b.started.size() == 5);
}

TEST_CASE("[B12] nothing starts when the lease does not cover the request, and goes on after the heartbeat") {
    bench b(16);
    b.endpoint("a", 8);
    b.time.advance(50s);
    b.add("a", 3);
    b.dispatch();
    CHECK(b.started.empty());
    b.lease.renewed(b.time.now());
    b.lanes.lease_renewed();
    CHECK(b.started.size() == 3);
}

TEST_CASE("a rate-limited lane waits for its token and is not asked before") {
    bench b(16);
    b.endpoint("a", 8, 10.0);
    b.add("a", 3);
    b.dispatch();
    CHECK(b.started.size() == 1);
    CHECK(b.lanes.next_token() == b.time.now() + 100ms);
    b.time.advance(100ms);
    b.lanes.tokens_due();
    CHECK(b.started.size() == 2);
}

TEST_CASE("[B52] an open circuit starts nothing but granted probes") {
    bench b(16);
    b.endpoint("a", 8);
    auto& l = b.lanes.at("a");
    l.circuit.adopt(lifecycle::circuit_state::open, b.time.now() + 60s);
    b.add("a", 3);
    b.dispatch();
    CHECK(b.started.empty());
    l.probes_granted = 1;
    b.lanes.refresh(l);
    b.dispatch();
    REQUIRE(b.started.size() == 1);
    CHECK(b.started.front()->probe);
}

TEST_CASE("a delivery that is held already is not taken twice") {
    bench b(16);
    b.endpoint("a", 8);
    b.add("a", 1);
    auto again = std::make_unique<relay::held>();
    again->row.delivery = 1;
    again->home = &b.lanes.at("a");
    CHECK_FALSE(b.lanes.enqueue(std::move(again)));
}

TEST_CASE("rows withdrawn from a lane leave no bytes behind") {
    bench b(16);
    b.endpoint("a", 1);
    b.add("a", 10);
    b.dispatch();
    CHECK(b.lanes.withdraw(b.lanes.at("a")).size() == 9);
    CHECK(b.lanes.queued() == 0);
    CHECK(b.lanes.bytes() == 2);
    b.finish_one("a");
    CHECK(b.lanes.bytes() == 0);
}

TEST_CASE("[B52] as many probes start as were granted, and they count until they are over") {
    bench b(16);
    b.endpoint("a", 8);
    auto& l = b.lanes.at("a");
    l.circuit.adopt(lifecycle::circuit_state::half_open, b.time.now());
    l.probes_granted = 2;
    b.add("a", 5);
    b.dispatch();
    REQUIRE(b.started.size() == 2);
    CHECK(b.started[0]->probe);
    CHECK(b.started[1]->probe);
    CHECK(l.probes_granted == 0);
    CHECK(l.probes_on_wire == 2);
    b.finish_one("a");
    CHECK(b.started.size() == 1);
}

TEST_CASE("lanes that wait for their rate are named, the next one first, and no more than asked for") {
    bench b(16);
    for (const auto* name : {"slow", "slower", "free"}) b.endpoint(name, 8, name == std::string{"free"} ? 0 : name == std::string{"slow"} ? 10 : 1);
    for (const auto* name : {"slower", "slow", "free"}) b.add(name, 3);
    b.dispatch();
    CHECK(b.lanes.rate_waiting(50) == std::vector<std::string>{"slow", "slower"});
    CHECK(b.lanes.rate_waiting(1) == std::vector<std::string>{"slow"});
}

TEST_CASE("a full claim starts in pieces and asks for the next one until all of it is on the wire") {
    bench b(512);
    b.endpoint("a", 512);
    b.add("a", 100);
    b.lanes.dispatch();
    CHECK(b.started.size() == 32);
    CHECK(b.more);
    b.dispatch();
    CHECK(b.started.size() == 100);
    CHECK_FALSE(b.more);
    b.add("a", 1);
    b.lanes.dispatch_soon();
    CHECK(b.started.size() == 100);
    CHECK(b.more);
}
