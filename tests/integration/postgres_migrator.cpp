// The migrator against a real server: from nothing, again, by several at once, and what it refuses.
#include <boost/asio/io_context.hpp>
#include <thread>

#include "postgres/migrator.hpp"
#include "postgres/run_until_done.hpp"
#include "support/catch.hpp"
#include "support/postgres_cluster.hpp"
#include "support/results.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
using testkit::good;
using testkit::postgres_cluster;
using testkit::refused;

namespace {

base::result<std::vector<std::string>> migrate(const std::string& url, const std::string& schema = "outbox", std::span<const postgres::migration> known = postgres::migrations()) {
    boost::asio::io_context loop;
    postgres::migrator m{loop.get_executor(), {base::secret{url}, {}, {}}, schema, known};
    return postgres::run_until_done<std::vector<std::string>>(loop, m.apply());
}

base::result<std::vector<postgres::migration_status>> status(const std::string& url, std::span<const postgres::migration> known = postgres::migrations()) {
    boost::asio::io_context loop;
    postgres::migrator m{loop.get_executor(), {base::secret{url}, {}, {}}, "outbox", known};
    return postgres::run_until_done<std::vector<postgres::migration_status>>(loop, m.status());
}

base::result<void> grant(const std::string& url, const std::string& role) {
    boost::asio::io_context loop;
    postgres::migrator m{loop.get_executor(), {base::secret{url}, {}, {}}, "outbox"};
    return postgres::run_until_done<void>(loop, m.grant_writer(role));
}

constexpr postgres::migration one{1, "one", "CREATE TABLE @schema@.a (x int);", "c1", true};
constexpr postgres::migration two{2, "two", "CREATE TABLE @schema@.b (x int);", "c2", true};
constexpr postgres::migration broken{2, "broken", "CREATE TABLE @schema@.b (x int); SELECT 1/0;", "c3", true};
constexpr postgres::migration alone{2, "alone", "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS a_x ON @schema@.a (x);", "c4", false};

}  // namespace

TEST_CASE("migrate makes the schema from nothing and does nothing the second time", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    auto before = status(url);
    REQUIRE(good(before));
    CHECK(before->size() == postgres::migrations().size());
    CHECK(!before->front().applied);
    auto first = migrate(url);
    REQUIRE(good(first));
    CHECK(first->size() == postgres::migrations().size());
    auto second = migrate(url);
    REQUIRE(good(second));
    CHECK(second->empty());
    auto after = status(url);
    REQUIRE(good(after));
    CHECK(after->back().applied);
    CHECK(after->back().applied_at.size() == 20);
    testkit::query(url, "insert into outbox.event (event_type, payload) values ('order.created', '{}')");
    CHECK(testkit::query_value(url, "select status from outbox.delivery") == "unrouted");
}

TEST_CASE("another schema name, even one that needs quotes, works beside the first", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    REQUIRE(good(migrate(url)));
    REQUIRE(good(migrate(url, "user")));
    testkit::query(url, "insert into \"user\".event (event_type, payload) values ('order.created', '{}')");
    CHECK(testkit::query_value(url, "select count(*) from \"user\".delivery") == "1");
    CHECK(testkit::query_value(url, "select count(*) from outbox.delivery") == "0");
}

TEST_CASE("eight migrators at once leave one schema and apply each migration once", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    std::vector<base::result<std::vector<std::string>>> results(8, base::result<std::vector<std::string>>{std::vector<std::string>{}});
    std::vector<std::thread> threads;
    for (auto& r : results) threads.emplace_back([&r, url] { r = migrate(url); });
    for (auto& t : threads) t.join();
    std::size_t applied = 0;
    for (const auto& r : results) {
        CHECK(good(r));
        if (r) applied += r->size();
    }
    CHECK(applied == postgres::migrations().size());
    CHECK(testkit::query_value(url, "select count(*) from outbox.migration") == std::to_string(postgres::migrations().size()));
}

TEST_CASE("a changed checksum is refused before anything is changed", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    const std::vector<postgres::migration> first{one};
    REQUIRE(good(migrate(url, "outbox", first)));
    const std::vector<postgres::migration> changed{{1, "one", one.text, "another", true}, two};
    auto r = migrate(url, "outbox", changed);
    CHECK(refused(r, base::errc::database_schema));
    CHECK(r.error().text.find("1 one") != std::string::npos);
    CHECK(testkit::query_value(url, "select to_regclass('outbox.b') is null") == "t");
    CHECK(refused(status(url, changed), base::errc::database_schema));
}

TEST_CASE("a newer schema is refused with both versions", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    const std::vector<postgres::migration> newer{one, two};
    REQUIRE(good(migrate(url, "outbox", newer)));
    const std::vector<postgres::migration> older{one};
    auto r = migrate(url, "outbox", older);
    CHECK(refused(r, base::errc::database_schema));
    CHECK(r.error().text.find("version 2") != std::string::npos);
    CHECK(r.error().text.find("knows 1") != std::string::npos);
}

TEST_CASE("a migration that fails is taken back whole, and later ones are not tried", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    const std::vector<postgres::migration> list{one, broken};
    auto r = migrate(url, "outbox", list);
    CHECK(refused(r, base::errc::database_schema));
    CHECK(r.error().sqlstate == "22012");
    CHECK(testkit::query_value(url, "select to_regclass('outbox.a') is not null and to_regclass('outbox.b') is null") == "t");
    CHECK(testkit::query_value(url, "select max(version) from outbox.migration") == "1");
}

TEST_CASE("a migration outside a transaction runs alone", "[postgres][migrate]") {
    const auto url = postgres_cluster::shared().create_database();
    const std::vector<postgres::migration> list{one, alone};
    REQUIRE(good(migrate(url, "outbox", list)));
    CHECK(testkit::query_value(url, "select to_regclass('outbox.a_x') is not null") == "t");
}

TEST_CASE("a database that is not UTF8 is refused", "[postgres][migrate]") {
    auto& server = postgres_cluster::shared();
    testkit::query(server.uri("postgres"), "create database latin encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0");
    auto r = migrate(server.uri("latin"));
    CHECK(refused(r, base::errc::database_schema));
    CHECK(r.error().text.find("LATIN1") != std::string::npos);
    CHECK(r.error().text.find("UTF8") != std::string::npos);
}

TEST_CASE("a role that may not create says which right it lacks; with it, no superuser is needed", "[postgres][migrate]") {
    auto& server = postgres_cluster::shared();
    const auto url = server.create_database();
    const auto name = url.substr(url.rfind('/') + 1);
    testkit::query(url, "drop role if exists relay_role");
    testkit::query(url, "create role relay_role login");
    auto r = migrate(server.uri(name, "relay_role"));
    CHECK(refused(r, base::errc::database_denied));
    CHECK(r.error().text.find("CREATE on the database") != std::string::npos);
    testkit::query(url, "create schema outbox authorization relay_role");
    CHECK(good(migrate(server.uri(name, "relay_role"))));
}

TEST_CASE("--grant-writer gives an application what it needs and no more", "[postgres][migrate]") {
    auto& server = postgres_cluster::shared();
    const auto url = server.create_database();
    const auto name = url.substr(url.rfind('/') + 1);
    testkit::query(url, "drop role if exists \"app writer\"");
    testkit::query(url, "create role \"app writer\" login");
    CHECK(refused(grant(url, "app writer"), base::errc::database_schema));
    REQUIRE(good(migrate(url)));
    CHECK(refused(grant(url, "nobody at all"), base::errc::not_found));
    REQUIRE(good(grant(url, "app writer")));
    REQUIRE(good(grant(url, "app writer")));
    const auto writer = server.uri(name, "app%20writer");
    CHECK(testkit::query(writer, "insert into outbox.event (event_type, payload) values ('a', '{}') on conflict (event_id) do nothing returning id, event_id").size() == 1);
    for (const auto* forbidden : {"select payload from outbox.event", "update outbox.event set subject = 'x'", "delete from outbox.event", "select * from outbox.delivery", "select * from outbox.endpoint_secret",
                                  "insert into outbox.endpoint (name, url) values ('x', 'https://x')", "select outbox.retire_relay(1)", "truncate outbox.event"}) {
        INFO(forbidden);
        CHECK_THROWS(testkit::query(writer, forbidden));
    }
}

TEST_CASE("print gives a text that psql would take, with the schema's name in it", "[postgres][migrate]") {
    boost::asio::io_context loop;
    const auto url = postgres_cluster::shared().create_database();
    postgres::migrator m{loop.get_executor(), {base::secret{url}, {}, {}}, "outbox"};
    const auto text = m.print();
    CHECK(text.find("@schema@") == std::string::npos);
    testkit::query(url, text);
    auto again = migrate(url);
    REQUIRE(good(again));
    CHECK(again->empty());
}
