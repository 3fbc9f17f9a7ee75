// The connection against a real server: answers, faults, deadlines, and silence about passwords.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdlib>
#include <functional>
#include <thread>

#include "postgres/connection.hpp"
#include "support/catch.hpp"
#include "support/postgres_cluster.hpp"
#include "support/raw_receiver.hpp"
#include "support/results.hpp"
#include "support/tls_material.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
using testkit::good;
using testkit::postgres_cluster;

namespace {

postgres::connect_options target_of(std::string url) { return {base::secret{std::move(url)}, {}, "test"}; }

std::string value(postgres::blocking_connection& c, std::string_view sql) {
    auto r = c.query(sql, {}, 5s);
    REQUIRE(good(r));
    REQUIRE(r->rows() == 1);
    return r->string(0, 0);
}

}  // namespace

TEST_CASE("a connection answers statements in text and in binary form", "[postgres]") {
    postgres::blocking_connection c;
    auto& server = postgres_cluster::shared();
    const auto url = server.create_database();
    REQUIRE(good(c.open(target_of(url), 5s)));
    CHECK(value(c, "select current_setting('application_name')") == "outboxd test");
    CHECK(value(c, "select current_setting('client_encoding')") == "UTF8");

    postgres::params p;
    p.int8(-5).int4(7).boolean(true).typed_text("a\xc3\xa9").interval(1500ms).jsonb(R"({"a":1})").text("17").null();
    auto r = c.query("select $1, $2, $3, $4, extract(epoch from $5)::float8, $6, $7::bigint, $8::text, timestamptz '2026-11-30 12:00:00.000001+00', timestamptz 'infinity'", std::move(p), 5s,
                     postgres::result_format::binary);
    REQUIRE(good(r));
    CHECK(r->integer(0, 0) == -5);
    CHECK(r->integer(0, 1) == 7);
    CHECK(r->boolean(0, 2));
    CHECK(r->text(0, 3) == "a\xc3\xa9");
    CHECK(r->real(0, 4) == 1.5);
    CHECK(r->text(0, 5) == R"({"a": 1})");
    CHECK(r->integer(0, 6) == 17);
    CHECK(r->is_null(0, 7));
    CHECK(base::format_rfc3339(r->time(0, 8)) == "2026-11-30T12:00:00.000Z");
    CHECK(r->time(0, 9) == base::wall_time::max());
}

TEST_CASE("arrays travel in binary form with their NULLs", "[postgres]") {
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(postgres_cluster::shared().create_database()), 5s)));
    postgres::params p;
    p.begin_array(postgres::type_oid::int8_array, 2);
    p.element(std::int64_t{1} << 40);
    p.element_null();
    p.begin_array(postgres::type_oid::int4_array, 1);
    p.element32(-3);
    p.begin_array(postgres::type_oid::boolean_array, 2);
    p.element(true);
    p.element(false);
    p.text_array({"a,b", "\"quoted\"", ""});
    p.begin_array(postgres::type_oid::timestamptz_array, 1);
    p.element(base::wall_time{1'700'000'000'000'001us});
    p.int8_array({});
    auto r = c.query("select $1::text, $2::text, $3::text, $4::text, (extract(epoch from $5[1]) * 1000000)::bigint::text, cardinality($6)::text", std::move(p), 5s);
    REQUIRE(good(r));
    CHECK(r->text(0, 0) == "{1099511627776,NULL}");
    CHECK(r->text(0, 1) == "{-3}");
    CHECK(r->text(0, 2) == "{t,f}");
    CHECK(r->text(0, 3) == R"({"a,b","\"quoted\"",""})");
    CHECK(r->text(0, 4) == "1700000000000001");
    CHECK(r->text(0, 5) == "0");
}

TEST_CASE("a script runs several statements and gives the last result", "[postgres]") {
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(postgres_cluster::shared().create_database()), 5s)));
    auto r = c.script("create table t (a int); insert into t values (1), (2); select count(*) from t", 5s);
    REQUIRE(good(r));
    CHECK(r->integer(0, 0) == 2);
    auto failed = c.script("insert into t values (3); select 1/0", 5s);
    REQUIRE(!good(failed));
    CHECK(failed.error().sqlstate == "22012");
    CHECK(value(c, "select count(*) from t") == "2");
}

TEST_CASE("an error of the server is classified by SQLSTATE and leaves the connection usable", "[postgres]") {
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(postgres_cluster::shared().create_database()), 5s)));
    struct example {
        const char* sql;
        base::errc code;
    };
    const std::vector<example> examples{{"select * from absent", base::errc::database_schema},
                                        {"select absent from pg_class", base::errc::database_schema},
                                        {"select absent()", base::errc::database_schema},
                                        {"select 1/0", base::errc::database_error},
                                        {"do $$ begin raise 'gone' using errcode = 'OB001'; end $$", base::errc::lease_lost},
                                        {"do $$ begin raise 'x' using errcode = '40001'; end $$", base::errc::database_busy},
                                        {"do $$ begin raise 'x' using errcode = '42501'; end $$", base::errc::database_denied},
                                        {"copy pg_class to stdout", base::errc::database_unreachable}};
    for (const auto& e : examples) {
        INFO(e.sql);
        auto r = c.query(e.sql, {}, 5s);
        REQUIRE(!good(r));
        CHECK(r.error().code == e.code);
        if (e.code != base::errc::database_unreachable) CHECK(value(c, "select 1") == "1");
    }
}

TEST_CASE("a statement beyond its deadline is cancelled on the server and the connection closed", "[postgres]") {
    const auto url = postgres_cluster::shared().create_database();
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(url), 5s)));
    const auto begin = std::chrono::steady_clock::now();
    auto r = c.query("select pg_sleep(60) /* slow one */", {}, 200ms);
    REQUIRE(!good(r));
    CHECK(r.error().code == base::errc::timeout);
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    CHECK(testkit::wait_for_value(url, "select count(*) from pg_stat_activity where state = 'active' and query like '%slow one%' and pid <> pg_backend_pid()", "0"));
    CHECK(!good(c.query("select 1", {}, 5s)));
    REQUIRE(good(c.open(target_of(url), 5s)));
    CHECK(value(c, "select 1") == "1");
}

TEST_CASE("[B05] a backend ended in the middle of a statement is a lost connection, not a hang", "[postgres][B05]") {
    const auto url = postgres_cluster::shared().create_database();
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(url), 5s)));
    const auto pid = value(c, "select pg_backend_pid()");
    std::thread killer([&] {
        testkit::wait_for_value(url, "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and pid = " + pid, "1");
        testkit::query(url, "select pg_terminate_backend(" + pid + ")");
    });
    auto r = c.query("select pg_sleep(60)", {}, 30s);
    killer.join();
    REQUIRE(!good(r));
    CHECK(r.error().code == base::errc::database_unreachable);
    CHECK(r.error().sqlstate == "57P01");
    REQUIRE(good(c.open(target_of(url), 5s)));
    CHECK(value(c, "select 1") == "1");
}

TEST_CASE("big results and big parameters pass while both directions are full", "[postgres]") {
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(postgres_cluster::shared().create_database()), 5s)));
    std::string big(32 << 20, 'x');
    postgres::params p;
    p.typed_text(big);
    auto r = c.query("select $1 || 'y', length($1)", std::move(p), 30s);
    REQUIRE(good(r));
    CHECK(r->text(0, 0).size() == big.size() + 1);
}

TEST_CASE("notifications come with query traffic and while waiting", "[postgres]") {
    const auto url = postgres_cluster::shared().create_database();
    boost::asio::io_context loop;
    bool done = false;
    struct story {
        static boost::asio::awaitable<void> run(boost::asio::io_context& loop, std::string url, bool& done) {
            postgres::connection c{loop.get_executor()};
            auto opened = co_await c.open(target_of(url), 5s);
            CHECK(good(opened));
            auto listened = co_await c.query("listen wake", {}, 5s);
            CHECK(good(listened));
            auto own = co_await c.query("select pg_notify('wake', 'with traffic')", {}, 5s);
            CHECK(good(own));
            auto first = co_await c.next_notification(5s);
            CHECK((first && first->channel == "wake" && first->payload == "with traffic"));
            auto none = co_await c.next_notification(50ms);
            CHECK((!none && none.error().code == base::errc::timeout));
            CHECK(c.is_open());
            std::thread other([url] { testkit::query(url, "select pg_notify('wake', 'while waiting')"); });
            auto second = co_await c.next_notification(5s);
            CHECK((second && second->payload == "while waiting"));
            other.join();
            testkit::query(url, "select pg_terminate_backend(" + std::to_string(c.backend_pid()) + ")");
            auto lost = co_await c.next_notification(5s);
            CHECK((!lost && lost.error().code == base::errc::database_unreachable));
            CHECK(!c.is_open());
            done = true;
        }
    };
    boost::asio::co_spawn(loop, story::run(loop, url, done), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
    });
    loop.run();
    CHECK(done);
}

TEST_CASE("close() from elsewhere ends a waiting statement with cancelled", "[postgres]") {
    const auto url = postgres_cluster::shared().create_database();
    boost::asio::io_context loop;
    postgres::connection c{loop.get_executor()};
    std::optional<base::error> ended;
    struct story {
        static boost::asio::awaitable<void> run(postgres::connection& c, std::string url, std::optional<base::error>& ended) {
            auto opened = co_await c.open(target_of(url), 5s);
            CHECK(good(opened));
            auto r = co_await c.query("select pg_sleep(60)", {}, 60s);
            CHECK(!good(r));
            if (!r) ended = r.error();
        }
    };
    boost::asio::co_spawn(loop, story::run(c, url, ended), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
    });
    boost::asio::steady_timer look{loop};
    std::function<void()> close_when_running = [&] {
        const auto active = testkit::query_value(url, "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and pid <> pg_backend_pid() and state = 'active'");
        if (active != "0") {
            c.close();
            return;
        }
        look.expires_after(20ms);
        look.async_wait([&](const boost::system::error_code& ec) {
            if (!ec) close_when_running();
        });
    };
    boost::asio::post(loop, close_when_running);
    loop.run();
    REQUIRE(ended);
    CHECK(ended->code == base::errc::cancelled);
    testkit::query(url, "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(60)%' and pid <> pg_backend_pid()");
}

TEST_CASE("several hosts: a silent and a refusing one are passed over, a name is looked up", "[postgres]") {
    auto& server = postgres_cluster::shared();
    const auto database = server.create_database();
    const auto name = database.substr(database.rfind('/') + 1);
    testkit::black_hole silent;
    postgres::blocking_connection c;
    const auto url = "postgresql://postgres@127.0.0.1:" + std::to_string(silent.port()) + ",127.0.0.1:" + std::to_string(testkit::refused_port()) + ",localhost:" + std::to_string(server.port()) + "/" + name +
                     "?connect_timeout=2&target_session_attrs=read-write";
    const auto begin = std::chrono::steady_clock::now();
    auto r = c.open(target_of(url), 20s);
    REQUIRE(good(r));
    CHECK(std::chrono::steady_clock::now() - begin < 8s);
    CHECK(value(c, "select 1") == "1");
    CHECK(c.description().find("host localhost") != std::string::npos);
}

TEST_CASE("a read-only server is refused when writes are asked for", "[postgres][B07]") {
    auto& server = postgres_cluster::shared();
    const auto url = server.create_database();
    const auto name = url.substr(url.rfind('/') + 1);
    testkit::query(server.uri("postgres"), "alter database \"" + name + "\" set default_transaction_read_only = on");
    postgres::blocking_connection c;
    auto r = c.open(target_of(server.uri(name) + "?target_session_attrs=read-write"), 5s);
    REQUIRE(!good(r));
    CHECK(r.error().code == base::errc::database_read_only);
    auto standby = c.open(target_of(server.uri(name) + "?target_session_attrs=prefer-standby"), 5s);
    CHECK(good(standby));
}

TEST_CASE("[B46] no form of a bad string shows its password, and the error names what it can", "[postgres][B46]") {
    auto& server = postgres_cluster::shared();
    testkit::temporary_directory directory;
    const std::string port = std::to_string(server.port());
    struct example {
        std::string url;
        std::vector<std::string> names;
    };
    const auto refused = std::to_string(testkit::refused_port());
    const std::vector<example> examples{
        {"postgresql://u:k^T$Z/w@h/db", {"cannot be read"}},
        {"postgresql://u:123/k^T$Z@h/db", {"cannot be read"}},
        {"postgresql://u:p@k^T$Z/w@h/db", {"cannot be read"}},
        {"postgresql://u:k^T$Z@127.0.0.1:" + refused + "/db", {"127.0.0.1", refused, "database db", "user u", "refused"}},
        {"host=127.0.0.1 port=" + refused + " user=u password=k^T$Z dbname=db", {"127.0.0.1", refused, "database db", "user u"}},
        {"host=127.0.0.1 password=a k^T$Z", {"cannot be read"}},
        {"mysql://u:k^T$Z@h/db", {"cannot be read"}},
        {"mysql://u:k^T$Z@h/db?a=b", {"cannot be read"}},
        {"k^T$Z", {"cannot be read"}},
        {"postgresql://u:k^T$Z@127.0.0.1:" + refused + "/db?sslmode=often", {"sslmode"}},
        {"postgresql://u:k^T$Z@no-such-host.invalid/db", {"no-such-host.invalid", "5432", "resolved"}},
        {"postgresql://u:k^T$Z@127.0.0.1:" + port + "/absent", {"127.0.0.1", port, "absent", "user u", "SQLSTATE"}},
    };
    for (const auto& e : examples) {
        postgres::blocking_connection c;
        auto r = c.open(target_of(e.url), 3s);
        REQUIRE(!good(r));
        INFO(r.error().text);
        CHECK(r.error().text.find("k^T") == std::string::npos);
        CHECK(r.error().text.find("T$Z") == std::string::npos);
        CHECK(c.description().find("k^T") == std::string::npos);
        for (const auto& n : e.names) CHECK(r.error().text.find(n) != std::string::npos);
    }
    postgres::blocking_connection c;
    const auto file = directory.write("url", "postgresql://u:k^T$Z/w@h/db\n");
    auto r = c.open({{}, file.string(), "test"}, 3s);
    REQUIRE(!good(r));
    CHECK(r.error().text.find("k^T") == std::string::npos);
}

TEST_CASE("a wrong password is denied by SQLSTATE, and a rotated one is read anew from the file", "[postgres][B46]") {
    testkit::cluster_options options;
    options.hba_first = {"host all app 127.0.0.1/32 scram-sha-256"};
    postgres_cluster server{options};
    testkit::query(server.uri("postgres"), "create role app login password 'old-one'");
    testkit::temporary_directory directory;
    const auto url = [&](const std::string& password) { return "postgresql://app:" + password + "@127.0.0.1:" + std::to_string(server.port()) + "/postgres\n"; };
    const auto file = directory.write("url", url("old-one"));
    postgres::blocking_connection c;
    REQUIRE(good(c.open({{}, file.string(), "test"}, 5s)));
    testkit::query(server.uri("postgres"), "alter role app password 'new-one'");
    auto r = c.open({{}, file.string(), "test"}, 5s);
    REQUIRE(!good(r));
    CHECK(r.error().code == base::errc::database_denied);
    CHECK(r.error().sqlstate == "28P01");
    CHECK(r.error().text.find("old-one") == std::string::npos);
    directory.write("url", url("new-one"));
    CHECK(good(c.open({{}, file.string(), "test"}, 5s)));
}

TEST_CASE("TLS to the database follows the string", "[postgres]") {
    testkit::certificate_authority authority;
    const auto certificate = authority.for_localhost();
    testkit::cluster_options options;
    options.certificate_pem = certificate.certificate_pem;
    options.key_pem = certificate.key_pem;
    postgres_cluster server{options};
    testkit::temporary_directory directory;
    const auto ca = directory.write("ca.pem", authority.certificate_pem()).string();
    const auto other = directory.write("other.pem", testkit::certificate_authority{"another root"}.certificate_pem()).string();
    const auto base_url = "postgresql://postgres@localhost:" + std::to_string(server.port()) + "/postgres?sslmode=verify-full&sslrootcert=";
    postgres::blocking_connection c;
    REQUIRE(good(c.open(target_of(base_url + ca), 5s)));
    CHECK(value(c, "select ssl from pg_stat_ssl where pid = pg_backend_pid()") == "t");
    auto r = c.open(target_of(base_url + other), 5s);
    REQUIRE(!good(r));
    CHECK(r.error().code == base::errc::database_unreachable);
    CHECK(r.error().text.find("certificate") != std::string::npos);
}

TEST_CASE("PG* variables hold when the string leaves something out", "[postgres]") {
    auto& server = postgres_cluster::shared();
    setenv("PGPORT", std::to_string(server.port()).c_str(), 1);
    setenv("PGHOST", "127.0.0.1", 1);
    setenv("PGUSER", "postgres", 1);
    setenv("PGDATABASE", "postgres", 1);
    postgres::blocking_connection c;
    auto r = c.open(target_of(""), 5s);
    CHECK(good(r));
    for (const auto* name : {"PGPORT", "PGHOST", "PGUSER", "PGDATABASE"}) unsetenv(name);
}
