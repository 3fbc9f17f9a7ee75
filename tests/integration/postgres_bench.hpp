// A migrated database and a store on a loop of its own, for the tests of faults.
#pragma once

#include <boost/asio/io_context.hpp>
#include <string>

#include "postgres/migrator.hpp"
#include "postgres/pg_delivery_store.hpp"
#include "postgres/run_until_done.hpp"
#include "support/catch.hpp"
#include "support/postgres_cluster.hpp"
#include "support/results.hpp"

namespace outboxd::integration {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using testkit::good;
using testkit::postgres_cluster;
using testkit::refused;

inline postgres::connect_options to(const std::string& url) { return {base::secret{url}, {}, {}}; }

inline void migrate(const std::string& url) {
    asio::io_context loop;
    postgres::migrator m{loop.get_executor(), to(url), "outbox"};
    const auto done = postgres::run_until_done<std::vector<std::string>>(loop, m.apply());
    REQUIRE(good(done));
}

// A store on a loop of its own, called one call at a time.
struct bench {
    explicit bench(const std::string& url, postgres::store_deadlines deadlines = {}) : store(loop.get_executor(), to(url), "outbox", deadlines) {}
    template <class T>
    base::result<T> run(ports::async_result<T> work) {
        return postgres::run_until_done<T>(loop, std::move(work));
    }
    ports::registration enlist() {
        auto r = run<ports::registration>(store.register_relay({"test", "host", 1, "0"}, 60s));
        REQUIRE(good(r));
        return *r;
    }
    static ports::claim_request everything(const ports::registration& who) {
        ports::claim_request r;
        r.relay = who.relay;
        r.epoch = who.epoch;
        r.discover_lanes = 10;
        r.discover_limit = 100;
        r.max_rows = 100;
        r.max_bytes = 1 << 20;
        r.fetch_max = 1 << 20;
        return r;
    }
    base::result<ports::claim_reply> claim(const ports::registration& who) { return run<ports::claim_reply>(store.claim(everything(who))); }
    base::result<void> check() { return run<void>(store.check_ready()); }
    // A call that may fail a few times while the database comes back.
    bool recovers(std::chrono::seconds limit = 30s) {
        const auto end = std::chrono::steady_clock::now() + limit;
        while (std::chrono::steady_clock::now() < end) {
            if (check()) return true;
        }
        return false;
    }

    asio::io_context loop{1};
    postgres::pg_delivery_store store;
};

inline void insert(const std::string& url, int count = 1) {
    testkit::query(url, "insert into outbox.event (event_type, payload, url) select 'a', '{}', 'https://a.example.com/' from generate_series(1, " + std::to_string(count) + ")");
}

inline std::string name_of(const std::string& url) { return url.substr(url.rfind('/') + 1); }

}  // namespace outboxd::integration
