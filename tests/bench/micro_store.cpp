// Claim and settle through the delivery store alone: events a second and CPU per event, without HTTP.
//   micro_store [events=100000] [batch=256]
#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "postgres/migrator.hpp"
#include "postgres/pg_delivery_store.hpp"
#include "postgres/run_until_done.hpp"
#include "support/postgres_cluster.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

struct cpu_time {
    double user{0};
    double kernel{0};
};

cpu_time cpu() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
    return {seconds(u.ru_utime), seconds(u.ru_stime)};
}

struct tally {
    std::deque<std::vector<lifecycle::settlement>> waiting;
    std::int64_t claimed{0};
    std::int64_t settled{0};
    std::int64_t bytes{0};
    bool claims_done{false};
};

void fail(const base::error& e) {
    std::fprintf(stderr, "%s\n", e.text.c_str());
    std::exit(1);
}

asio::awaitable<void> claim_all(postgres::pg_delivery_store& store, ports::registration who, int batch, tally& t) {
    std::optional<ports::lane_bound> bound;
    for (;;) {
        ports::claim_request ask;
        ask.relay = who.relay;
        ask.epoch = who.epoch;
        ask.lanes.push_back({"a", batch, bound, ""});
        ask.max_rows = batch;
        ask.max_bytes = 64 << 20;
        ask.fetch_max = 1 << 20;
        auto reply = co_await store.claim(std::move(ask));
        if (!reply) fail(reply.error());
        if (reply->rows.empty()) break;
        std::vector<lifecycle::settlement> done;
        for (const auto& r : reply->rows) {
            t.bytes += static_cast<std::int64_t>(r.event.body.size());
            bound = ports::lane_bound{r.due_at, r.delivery};
            lifecycle::settlement s;
            s.delivery = r.delivery;
            s.outcome = lifecycle::outcome::published;
            s.http_status = 200;
            s.duration_ms = 3;
            s.started = base::boot_clock::now();
            s.phases.first_byte = 2;
            done.push_back(std::move(s));
        }
        t.claimed += static_cast<std::int64_t>(done.size());
        t.waiting.push_back(std::move(done));
    }
    t.claims_done = true;
}

asio::awaitable<void> settle_all(postgres::pg_delivery_store& store, ports::registration who, tally& t) {
    while (!t.claims_done || !t.waiting.empty()) {
        if (t.waiting.empty()) {
            asio::steady_timer pause{co_await asio::this_coro::executor, 1ms};
            co_await pause.async_wait(asio::use_awaitable);
            continue;
        }
        const auto batch = std::move(t.waiting.front());
        t.waiting.pop_front();
        auto changed = co_await store.settle(who.relay, batch);
        if (!changed) fail(changed.error());
        t.settled += static_cast<std::int64_t>(changed->size());
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int events = argc > 1 ? std::atoi(argv[1]) : 100'000;
    const int batch = argc > 2 ? std::atoi(argv[2]) : 256;
    testkit::postgres_cluster server{{.settings = {"shared_buffers = 512MB", "max_wal_size = 4GB"}, .hba_first = {}, .certificate_pem = {}, .key_pem = {}}};
    const auto url = server.create_database();
    asio::io_context loop{1};
    postgres::migrator m{loop.get_executor(), {base::secret{url}, {}, {}}, "outbox"};
    if (auto done = postgres::run_until_done<std::vector<std::string>>(loop, m.apply()); !done) fail(done.error());
    testkit::query(url, "INSERT INTO outbox.endpoint (name, url) VALUES ('a', 'https://a.example.com/')");
    testkit::query(url, "INSERT INTO outbox.event (event_type, payload) SELECT 'order.created', ('{\"id\":' || g || ',\"filler\":\"' || repeat('x', 1000) || '\"}')::json FROM generate_series(1, " +
                            std::to_string(events) + ") g");
    testkit::query(url, "CHECKPOINT");
    postgres::pg_delivery_store store{loop.get_executor(), {base::secret{url}, {}, {}}, "outbox"};
    auto who = postgres::run_until_done<ports::registration>(loop, store.register_relay({"bench", "host", 1, "0"}, 600s));
    if (!who) fail(who.error());
    tally t;
    const auto begin = std::chrono::steady_clock::now();
    const auto before = cpu();
    asio::co_spawn(loop, claim_all(store, *who, batch, t), [](std::exception_ptr e) { if (e) std::rethrow_exception(e); });
    asio::co_spawn(loop, settle_all(store, *who, t), [](std::exception_ptr e) { if (e) std::rethrow_exception(e); });
    loop.restart();
    loop.run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto after = cpu();
    std::printf("%lld claimed, %lld settled, batch %d: %.0f events/s, own CPU %.2f user + %.2f kernel us/event\n", static_cast<long long>(t.claimed), static_cast<long long>(t.settled), batch,
                static_cast<double>(t.settled) / seconds, (after.user - before.user) * 1e6 / static_cast<double>(t.settled), (after.kernel - before.kernel) * 1e6 / static_cast<double>(t.settled));
    return t.settled == events ? 0 : 1;
}
