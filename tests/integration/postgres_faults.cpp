// The store while the database misbehaves: each fault is an error with a name, and recovery needs no restart.
#include <boost/asio/co_spawn.hpp>
#include <thread>

#include "postgres_bench.hpp"
#include "support/loopback.hpp"

using namespace outboxd;
using namespace outboxd::integration;

TEST_CASE("[B05] a backend killed in the middle of a claim: the claim fails, the next one works and its rows are found again", "[postgres][faults][B05]") {
    const auto url = postgres_cluster::shared().create_database();
    migrate(url);
    insert(url, 3);
    bench b{url};
    const auto who = b.enlist();
    testkit::held_session blocker{url};
    blocker.query("begin; lock table outbox.delivery in access exclusive mode");
    std::thread killer([&] {
        testkit::wait_for_value(url, "select count(*) from pg_stat_activity where application_name = 'outboxd claim' and wait_event_type = 'Lock'", "1");
        testkit::query(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outboxd claim'");
    });
    const auto lost = b.claim(who);
    killer.join();
    CHECK(refused(lost, base::errc::database_unreachable));
    blocker.query("commit");
    const auto found = b.claim(who);
    REQUIRE(good(found));
    CHECK(found->rows.size() == 3);
}

TEST_CASE("[B13] a settlement that waits for a lock times out, is cancelled on the server, and is written by the next try", "[postgres][faults][B13]") {
    const auto url = postgres_cluster::shared().create_database();
    migrate(url);
    insert(url, 2);
    postgres::store_deadlines quick;
    quick.settle = 300ms;
    bench b{url, quick};
    const auto who = b.enlist();
    const auto rows = b.claim(who);
    REQUIRE(good(rows));
    std::vector<lifecycle::settlement> batch(2);
    for (std::size_t i = 0; i < 2; ++i) {
        batch[i].delivery = rows->rows[i].delivery;
        batch[i].outcome = lifecycle::outcome::published;
    }
    testkit::held_session blocker{url};
    blocker.query("begin; lock table outbox.attempt in access exclusive mode");
    CHECK(refused(b.run<std::vector<std::int64_t>>(b.store.settle(who.relay, batch)), base::errc::timeout));
    CHECK(testkit::wait_for_value(url, "select count(*) from pg_stat_activity where application_name = 'outboxd settle' and wait_event_type = 'Lock'", "0"));
    blocker.query("commit");
    postgres::pg_delivery_store slow{b.loop.get_executor(), to(url), "outbox"};
    const auto written = b.run<std::vector<std::int64_t>>(slow.settle(who.relay, batch));
    REQUIRE(good(written));
    CHECK(written->size() == 2);
}

TEST_CASE("[B05] a server that crashes and comes back is found again by every session", "[postgres][faults][B05]") {
    postgres_cluster server;
    const auto url = server.create_database();
    migrate(url);
    bench b{url, {.claim = 2s, .settle = 2s, .control = 2s, .maintenance = 2s, .repair = 2s}};
    const auto who = b.enlist();
    REQUIRE(good(b.claim(who)));
    server.stop(testkit::stop_mode::immediate);
    const auto begin = std::chrono::steady_clock::now();
    const auto gone = b.claim(who);
    CHECK((refused(gone, base::errc::database_unreachable) || refused(gone, base::errc::timeout)));
    CHECK(std::chrono::steady_clock::now() - begin < 6s);
    server.start();
    CHECK(b.recovers());
    insert(url);
    auto rows = b.claim(who);
    if (!rows) rows = b.claim(who);
    REQUIRE(good(rows));
    CHECK(rows->rows.size() == 1);
}

TEST_CASE("[B07] a server that turns read-only is told so, its sessions are dropped, and it is used again when it may be written", "[postgres][faults][B07]") {
    postgres_cluster server;
    const auto url = server.create_database();
    migrate(url);
    insert(url);
    bench b{url, {.claim = 1s, .settle = 1s, .control = 1s, .maintenance = 1s, .repair = 1s}};
    const auto who = b.enlist();
    REQUIRE(good(b.check()));
    const auto before = testkit::query_value(url, "select pid from pg_stat_activity where application_name = 'outboxd lease'");
    server.set("default_transaction_read_only", "on");
    CHECK(testkit::wait_for_value(url, "show default_transaction_read_only", "on"));
    const auto claim = b.run<ports::beat_reply>(b.store.beat({who.relay, 60s, 0, false, ""}));
    CHECK(refused(claim, base::errc::database_read_only));
    CHECK(testkit::wait_for_value(url, "select count(*) from pg_stat_activity where pid = " + before, "0"));
    CHECK(refused(b.check(), base::errc::database_read_only));
    testkit::held_session writer{server.uri("postgres")};
    writer.query("set default_transaction_read_only = off");
    writer.query("alter system set default_transaction_read_only = off");
    writer.query("select pg_reload_conf()");
    CHECK(b.recovers());
    CHECK(good(b.run<ports::beat_reply>(b.store.beat({who.relay, 60s, 0, false, ""}))));
}

TEST_CASE("a frozen server is a passed deadline, and answers again when it thaws", "[postgres][faults][B13]") {
    postgres_cluster server;
    const auto url = server.create_database();
    migrate(url);
    bench b{url, {.claim = 500ms, .settle = 500ms, .control = 500ms, .maintenance = 500ms, .repair = 500ms}};
    const auto who = b.enlist();
    REQUIRE(good(b.claim(who)));
    server.freeze();
    const auto begin = std::chrono::steady_clock::now();
    CHECK(refused(b.claim(who), base::errc::timeout));
    CHECK(!good(b.claim(who)));
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    server.thaw();
    CHECK(b.recovers());
}

TEST_CASE("[B77] a table that is renamed, a column that is gone or of another type are named; an added one is harmless", "[postgres][faults][B77]") {
    const auto url = postgres_cluster::shared().create_database();
    migrate(url);
    bench b{url};
    const auto who = b.enlist();
    REQUIRE(good(b.check()));
    struct change {
        const char* make;
        const char* undo;
        const char* names;
    };
    const change changes[] = {
        {"alter table outbox.delivery rename to delivery_away", "alter table outbox.delivery_away rename to delivery", "table delivery is missing"},
        {"alter table outbox.delivery rename column due_at to due", "alter table outbox.delivery rename column due to due_at", "column delivery.due_at is missing"},
        {"alter table outbox.delivery alter column rescued type bigint", "alter table outbox.delivery alter column rescued type int", "column delivery.rescued is bigint and not integer"},
        {"alter table outbox.delivery drop constraint delivery_pkey", "alter table outbox.delivery add constraint delivery_pkey primary key (id)", "delivery.id has no unique index"},
        {"alter table outbox.endpoint rename to e2; create view outbox.endpoint as select * from outbox.e2", "drop view outbox.endpoint; alter table outbox.e2 rename to endpoint", "endpoint is no table"},
        {"alter function outbox.rescue(bigint, int, int) rename to rescue2", "alter function outbox.rescue2(bigint, int, int) rename to rescue", "function rescue(bigint,integer,integer) is missing"},
    };
    for (const auto& c : changes) {
        INFO(c.make);
        testkit::query(url, c.make);
        const auto r = b.check();
        CHECK(refused(r, base::errc::database_schema));
        if (!r) CHECK(r.error().text.find(c.names) != std::string::npos);
        testkit::query(url, c.undo);
        CHECK(good(b.check()));
    }
    testkit::query(url, "alter table outbox.delivery rename to delivery_away");
    CHECK(refused(b.claim(who), base::errc::database_schema));
    testkit::query(url, "alter table outbox.delivery_away rename to delivery");
    testkit::query(url, "alter table outbox.event add column extra int; alter table outbox.delivery add column extra int");
    insert(url);
    const auto rows = b.claim(who);
    REQUIRE(good(rows));
    CHECK(rows->rows.size() == 1);
    CHECK(good(b.check()));
}

TEST_CASE("[B65] each way of not being ready has its own name and a sentence", "[postgres][faults][B65]") {
    auto& server = postgres_cluster::shared();
    const auto empty = server.create_database();
    const auto full = server.create_database();
    migrate(full);
    testkit::query(full, "drop role if exists bystander");
    testkit::query(full, "create role bystander login");
    const postgres::store_deadlines quick{.claim = 1s, .settle = 1s, .control = 1s, .maintenance = 1s, .repair = 1s};
    struct example {
        std::string url;
        base::errc code;
        std::string says;
    };
    const example examples[] = {
        {empty, base::errc::database_schema, "run `outboxd migrate`"},
        {"postgresql://postgres@127.0.0.1:" + std::to_string(testkit::refused_port()) + "/db", base::errc::database_unreachable, "refused"},
        {server.uri("absent"), base::errc::database_schema, "does not exist"},
        {server.uri(name_of(full), "bystander"), base::errc::database_denied, "permission denied"},
        {server.uri(name_of(full), "nobody_here"), base::errc::database_denied, "28000"},
    };
    for (const auto& e : examples) {
        bench b{e.url, quick};
        const auto r = b.check();
        CHECK(refused(r, e.code));
        if (!r) {
            INFO(r.error().text);
            CHECK(r.error().text.find(e.says) != std::string::npos);
        }
    }
    testkit::query(full, "update outbox.migration set version = version + 100 where version = (select max(version) from outbox.migration)");
    bench b{full, quick};
    const auto r = b.check();
    CHECK(refused(r, base::errc::database_schema));
    if (!r) CHECK(r.error().text.find("newer") != std::string::npos);
}

TEST_CASE("a session that the server ended while idle is replaced without an error", "[postgres][faults]") {
    const auto url = postgres_cluster::shared().create_database();
    migrate(url);
    bench b{url};
    const auto who = b.enlist();
    REQUIRE(good(b.claim(who)));
    testkit::query(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outboxd claim' and datname = current_database()");
    CHECK(testkit::wait_for_value(url, "select count(*) from pg_stat_activity where application_name = 'outboxd claim' and datname = current_database()", "0"));
    CHECK(good(b.claim(who)));
}

TEST_CASE("abort ends a call that waits for an absent database, at once", "[postgres][faults]") {
    bench b{"postgresql://postgres@127.0.0.1:" + std::to_string(testkit::refused_port()) + "/db"};
    std::optional<base::error> ended;
    asio::co_spawn(b.loop, b.store.check_ready(), [&](std::exception_ptr, base::result<void> r) {
        if (!r) ended = r.error();
    });
    b.loop.run_for(300ms);
    CHECK(!ended);
    const auto begin = std::chrono::steady_clock::now();
    b.store.abort();
    b.loop.run_for(5s);
    REQUIRE(ended);
    CHECK(ended->code == base::errc::cancelled);
    CHECK(std::chrono::steady_clock::now() - begin < 1s);
}

TEST_CASE("a stricter default isolation of the database does not reach our statements", "[postgres][faults]") {
    auto& server = postgres_cluster::shared();
    const auto url = server.create_database();
    migrate(url);
    testkit::query(server.uri("postgres"), "alter database \"" + name_of(url) + "\" set default_transaction_isolation = 'serializable'");
    insert(url, 50);
    bench a{url};
    bench b{url};
    const auto first = a.enlist();
    const auto second = b.enlist();
    CHECK(good(a.run<void>(a.store.check_ready())));
    std::size_t seen = 0;
    for (const auto& rows : {a.claim(first), b.claim(second)}) {
        REQUIRE(good(rows));
        seen += rows->rows.size();
    }
    CHECK(seen == 50);
    CHECK(testkit::query_value(url, "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'") == "0");
    // A failing statement leaves no transaction open either.
    auto wrong = bench::everything(first);
    wrong.epoch = 99;
    CHECK(refused(a.run<ports::claim_reply>(a.store.claim(wrong)), base::errc::lease_lost));
    CHECK(good(a.claim(first)));
}
