// The operator's store on a real PostgreSQL: what it shows of every state, what its hand work does, and that no secret comes out.
#include "postgres/pg_operator_store.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "admin/api_json.hpp"
#include "admin/why.hpp"
#include "integration/admin_client.hpp"
#include "postgres/migrator.hpp"
#include "postgres/run_until_done.hpp"
#include "support/catch.hpp"
#include "support/postgres_cluster.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testkit::query;
using testkit::query_value;

namespace {

struct bench {
    std::string uri{testkit::postgres_cluster::shared().create_database()};
    boost::asio::io_context loop;
    postgres::pg_operator_store store{loop.get_executor(), options()};

    bench() {
        postgres::migrator migrator(loop.get_executor(), connect(), "outbox");
        const auto done = postgres::run_until_done(loop, migrator.apply());
        REQUIRE(done.has_value());
    }
    postgres::connect_options connect() const {
        postgres::connect_options c;
        c.url = base::secret{uri};
        c.purpose = "test";
        return c;
    }
    postgres::operator_store_options options() const {
        postgres::operator_store_options o;
        o.connect = connect();
        o.deadline = 10s;
        return o;
    }
    // The store keeps its session between calls, so the loop is run only until the answer is there.
    template <class T>
    base::result<T> ask(ports::async_result<T> call) {
        std::optional<base::result<T>> answer;
        boost::asio::co_spawn(loop, std::move(call), [&](std::exception_ptr e, base::result<T> r) {
            if (e) std::rethrow_exception(e);
            answer.emplace(std::move(r));
        });
        loop.restart();
        while (!answer) loop.run_one();
        return std::move(*answer);
    }
    template <class T>
    T get(ports::async_result<T> call) {
        auto r = ask(std::move(call));
        INFO((r ? std::string{} : r.error().text));
        REQUIRE(r.has_value());
        return std::move(*r);
    }
    void sql(const std::string& text) { query(uri, text); }
    std::int64_t event(const std::string& type, const std::string& more = "", const std::string& values = "") {
        return std::stoll(
            query_value(uri, "INSERT INTO outbox.event (event_type, payload" + more + ") VALUES ('" + type + "', '{\"n\": 1}'" + values + ") RETURNING id"));
    }
    std::string why(std::int64_t id) {
        std::string text;
        for (const auto& f : get(store.why(id))) text += admin::target_of(f) + ": " + std::string(admin::to_string(admin::explain(f, "").why)) + "\n";
        return text;
    }
    // A relay's row whose lease holds, without a relay.
    std::int64_t relay() { return std::stoll(query_value(uri, "SELECT id FROM outbox.register_relay('r', 'h', 7, '0', interval '1 hour')")); }
};

}  // namespace

TEST_CASE("why names the cause of each state as the database has it", "[admin][postgres]") {
    bench b;
    b.sql(
        "INSERT INTO outbox.endpoint (name, url, events) VALUES ('a', 'https://a.example/', '{a.*}'), ('p', 'https://p.example/', '{p}'), ('d', "
        "'https://d.example/', '{d}'), ('c', 'https://c.example/', '{c}')");
    b.sql("UPDATE outbox.endpoint SET paused = true WHERE name = 'p'");
    b.sql("UPDATE outbox.endpoint SET enabled = false, disabled_reason = 'by operator', disabled_at = now() WHERE name = 'd'");
    b.sql("SELECT outbox.circuit_trip('c', 5, interval '1 min', interval '1 hour', 'HTTP 503')");

    const auto due = b.event("a.x");
    CHECK(b.why(due) == "a: no_relay\n");
    const auto relay = b.relay();
    CHECK(b.why(due) == "a: waiting\n");
    CHECK(b.why(b.event("a.x", ", deliver_at", ", now() + interval '1 hour'")) == "a: not_due\n");
    CHECK(b.why(b.event("p")) == "p: paused\n");
    CHECK(b.why(b.event("d")) == "d: disabled\n");
    CHECK(b.why(b.event("c")) == "c: circuit_open\n");
    CHECK(b.why(b.event("nobody")) == "(no endpoint): unrouted\n");
    CHECK(b.why(b.event("x", ", url", ", 'https://h.example/p?token=t'")) == "https://h.example:443/p: waiting\n");

    b.sql("UPDATE outbox.delivery SET claimed_by = " + std::to_string(relay) + " WHERE event = " + std::to_string(due));
    CHECK(b.why(due) == "a: claimed\n");
    const auto first = b.event("a.k", ", ordering_key", ", 'k'");
    const auto second = b.event("a.k", ", ordering_key", ", 'k'");
    CHECK(b.why(second) == "a: blocked_by_key\n");
    b.sql("UPDATE outbox.delivery SET status = 'failed', blocks = true, attempts = 8 WHERE event = " + std::to_string(first));
    const auto facts = b.get(b.store.why(second));
    CHECK(facts.at(0).blocking_status == "failed");
    CHECK(b.why(first) == "a: failed\n");
    const auto failed = b.get(b.store.why(first)).at(0).delivery;
    CHECK(b.get(b.store.unblock(failed)).result == "ok");
    CHECK(b.why(second) == "a: waiting\n");
    CHECK(b.get(b.store.unblock(failed)).result == "it blocks nothing");
}

TEST_CASE("an event is found by its public id and by its number, the public id first", "[admin][postgres]") {
    bench b;
    const auto one = b.event("t", ", event_id", ", 'evt_1'");
    const auto two = b.event("t", ", event_id", ", '" + std::to_string(one) + "'");
    CHECK(b.get(b.store.find_event("evt_1")) == one);
    CHECK(b.get(b.store.find_event(std::to_string(two))) == two);
    CHECK(b.get(b.store.find_event(std::to_string(one))) == two);
    for (const char* bad : {"none", "99999999999999999999999", "-1", "1 OR 1=1", ""}) {
        CAPTURE(bad);
        CHECK(b.ask(b.store.find_event(bad)).error().code == base::errc::not_found);
    }
}

TEST_CASE("status counts what there is, with and without relays", "[admin][postgres]") {
    bench b;
    b.sql("INSERT INTO outbox.endpoint (name, url, events) VALUES ('a', 'https://a.example/', '{a}'), ('b', 'https://b.example/', '{b}')");
    for (int i = 0; i < 3; ++i) b.event("a");
    b.event("b", ", deliver_at", ", now() + interval '1 hour'");
    b.event("b", ", ordering_key", ", 'k'");
    b.event("nobody");
    b.sql("UPDATE outbox.delivery SET status = 'failed' WHERE id = (SELECT min(id) FROM outbox.delivery)");
    auto s = b.get(b.store.status());
    CHECK(s.schema_version > 0);
    CHECK((s.due.n == 3 && s.scheduled.n == 1 && s.failed.n == 1 && s.unrouted.n == 1 && s.claimed.n == 0));
    CHECK(s.relays.empty());
    REQUIRE(s.lanes.size() == 2);
    CHECK(s.lanes[0].lane == "a");
    CHECK((s.lanes[0].due.n == 2 && s.lanes[0].failed.n == 1));
    CHECK((s.lanes[1].scheduled.n == 1 && s.lanes[1].keyed.n == 1));
    CHECK(s.oldest_due_seconds > 0);
    b.relay();
    s = b.get(b.store.status());
    REQUIRE(s.relays.size() == 1);
    CHECK((s.relays[0].alive && s.relays[0].pid == 7));
    CHECK_THAT(admin::to_json(s), Contains("\"lanes\":[{\"lane\":\"a\""));
}

TEST_CASE("counts end at their limit and say so", "[admin][postgres]") {
    bench b;
    b.sql("INSERT INTO outbox.endpoint (name, url) VALUES ('a', 'https://a.example/')");
    b.sql("INSERT INTO outbox.event (event_type, payload) SELECT 't', '{}' FROM generate_series(1, 1500)");
    const auto s = b.get(b.store.status());
    CHECK(s.due.n == 1500);
    CHECK(s.lanes.at(0).due.n == 1000);
    CHECK(s.lanes.at(0).due.at_least);
    CHECK_THAT(admin::to_json(s), Contains("\"due_at_least\":true"));
}

TEST_CASE("replaying makes one fresh delivery each time, and says why not [B49]", "[admin][postgres]") {
    bench b;
    b.sql("INSERT INTO outbox.endpoint (name, url, events) VALUES ('a', 'https://a.example/', '{a}')");
    const auto id = b.event("a");
    const auto publish = [&] {
        b.sql(
            "WITH d AS (DELETE FROM outbox.delivery RETURNING *) INSERT INTO outbox.attempt (delivery, event, endpoint, attempt, outcome, started_at) SELECT "
            "id, event, endpoint, 1, 'published', now() FROM d");
    };
    publish();
    for (int again = 0; again < 2; ++again) {
        const auto rows = b.get(b.store.replay({{id, std::nullopt}}));
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].result == "replayed");
        CHECK(query_value(b.uri, "SELECT count(*) FROM outbox.delivery WHERE status = 'pending' AND attempts = 0 AND due_at <= clock_timestamp()") == "1");
        CHECK(b.get(b.store.replay({{id, std::nullopt}})).at(0).result == "already pending");
        publish();
    }
    CHECK(b.get(b.store.replay({{id, std::string{"nobody"}}})).at(0).result == "no such endpoint");
    CHECK(b.get(b.store.replay({{id + 1000, std::nullopt}})).empty());

    b.get(b.store.replay({{id, std::nullopt}}));
    b.sql("UPDATE outbox.delivery SET status = 'failed', attempts = 8");
    CHECK(b.get(b.store.replay({{id, std::string{"a"}}})).at(0).result == "replayed");
    const auto relay = b.relay();
    b.sql("UPDATE outbox.delivery SET claimed_by = " + std::to_string(relay));
    CHECK(b.get(b.store.replay({{id, std::nullopt}})).at(0).result == "claimed by relay " + std::to_string(relay));
}

TEST_CASE("a copy is a new event with the old one's bytes", "[admin][postgres]") {
    bench b;
    const auto id = b.event("t", ", tenant_id, headers, expires_at", ", 'x', '{\"A\": \"b\"}', now() - interval '1 s'");
    const auto fresh = b.get(b.store.copy_event(id, std::nullopt));
    CHECK(query_value(b.uri, "SELECT count(*) FROM outbox.event a, outbox.event b WHERE a.id = " + std::to_string(id) + " AND b.event_id = '" + fresh +
                                 "' AND a.payload::text = b.payload::text AND a.headers = b.headers AND a.tenant_id = b.tenant_id AND b.expires_at IS NULL AND "
                                 "a.event_id <> b.event_id") == "1");
}

TEST_CASE("replay candidates come page by page, each once, whatever the page size", "[admin][postgres]") {
    bench b;
    b.sql("INSERT INTO outbox.endpoint (name, url, events) VALUES ('a', 'https://a.example/', '{a.*}'), ('b', 'https://b.example/', '{a.*}')");
    b.sql(
        "INSERT INTO outbox.event (event_type, payload, tenant_id) SELECT 'a.' || (i % 2), '{}', CASE WHEN i % 3 = 0 THEN 't' END FROM generate_series(1, 60) "
        "i");
    b.sql("UPDATE outbox.delivery SET status = 'failed' WHERE endpoint = 'b' OR event <= 10");
    const auto all = [&](ports::replay_filter f, int scan) {
        std::size_t n = 0;
        f.scan = scan;
        for (bool end = false; !end;) {
            const auto page = b.get(b.store.replay_candidates(f));
            n += page.found.size();
            end = page.end;
            if (page.next_after > 0) f.after = page.next_after;
        }
        return n;
    };
    struct row {
        ports::replay_filter filter;
        std::size_t expected;
    };
    ports::replay_filter everything, failed, failed_b, pending, type, tenant, future;
    failed.status = "failed";
    failed_b.status = "failed";
    failed_b.endpoint = "b";
    pending.status = "pending";
    type.type = "a.1";
    tenant.tenant = "t";
    tenant.endpoint = "a";
    future.since = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now() + 1h);
    const row rows[] = {{everything, 120}, {failed, 70}, {failed_b, 60}, {pending, 50}, {type, 60}, {tenant, 20}, {future, 0}};
    for (const auto& r : rows) {
        for (const int scan : {1, 7, 60, 1000}) {
            CAPTURE(r.filter.status.value_or("any"), r.filter.endpoint.value_or("any"), scan);
            CHECK(all(r.filter, scan) == r.expected);
        }
    }
}

TEST_CASE("endpoints are made, changed, stopped and removed by hand", "[admin][postgres]") {
    bench b;
    ports::new_endpoint what;
    what.name = "billing";
    what.url = "https://user:url-password@billing.example/hooks?token=url-token";
    what.events = {"order.*", "a\"b,c"};
    what.settings = R"({"timeout": "5s", "headers": {"Authorization": "Bearer header-secret"}, "proxy": "http://u:proxy-secret@p:1"})";
    what.secret = base::secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"};
    CHECK(b.ask(b.store.add_endpoint(what)).has_value());
    CHECK(b.ask(b.store.add_endpoint(what)).error().code == base::errc::refused);
    auto view = b.get(b.store.show_endpoint("billing"));
    CHECK(view.managed_by == "cli");
    CHECK(view.events == what.events);
    CHECK(view.secrets.size() == 1);
    const auto json = admin::to_json(view) + admin::to_json(b.get(b.store.list_endpoints()));
    for (const char* secret : {"url-password", "url-token", "header-secret", "proxy-secret", "whsec_"}) {
        CAPTURE(secret);
        CHECK(json.find(secret) == std::string::npos);
    }
    CHECK_THAT(json, Contains("\"Authorization\": \"(set)\"") && Contains("\"timeout\": \"5s\""));

    ports::endpoint_change change;
    change.url = "https://new.example/";
    change.events = std::vector<std::string>{"*"};
    change.tenant_id = std::optional<std::string>{"t"};
    CHECK(b.ask(b.store.change_endpoint("billing", change)).has_value());
    CHECK(b.ask(b.store.change_endpoint("nobody", change)).error().code == base::errc::not_found);
    CHECK(b.ask(b.store.set_enabled("billing", false, "by operator")).has_value());
    CHECK(b.ask(b.store.set_paused("billing", true)).has_value());
    view = b.get(b.store.show_endpoint("billing"));
    CHECK((view.url == "https://new.example:443/" && view.tenant_id == "t" && !view.enabled && view.paused && view.disabled_reason == "by operator" &&
           view.disabled_at));
    CHECK(b.ask(b.store.set_enabled("billing", true, "")).has_value());
    view = b.get(b.store.show_endpoint("billing"));
    CHECK((view.enabled && view.disabled_reason.empty() && !view.disabled_at));

    CHECK(b.ask(b.store.rotate_secret("billing", base::secret{"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}, 1h)).has_value());
    const auto row = b.get(b.store.endpoint_for_test("billing"));
    REQUIRE(row.secrets.size() == 2);
    CHECK(row.secrets[0].first == "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    CHECK((!row.secrets[0].second && row.secrets[1].second && *row.secrets[1].second <= 1h));

    b.event("t", ", tenant_id", ", 't'");
    CHECK(query_value(b.uri, "SELECT count(*) FROM outbox.delivery WHERE endpoint = 'billing'") == "1");
    const auto step = b.get(b.store.remove_endpoint("billing"));
    CHECK((step.cancelled == 1 && step.gone));
    CHECK(b.ask(b.store.show_endpoint("billing")).error().code == base::errc::not_found);
}

TEST_CASE("events are listed newest first by filter, with their bodies untouched", "[admin][postgres]") {
    bench b;
    b.sql("INSERT INTO outbox.endpoint (name, url, events) VALUES ('a', 'https://a.example/', '{order.*}')");
    const auto one = b.event("order.created", ", headers", ", '{\"X-Token\": \"header-secret\"}'");
    const auto two = b.event("order.paid.late");
    b.event("invoice");
    b.sql("INSERT INTO outbox.event (event_type, payload_bytes) VALUES ('raw', '\\x00ff0a')");
    ports::event_filter f;
    f.type = "order.*";
    const auto list = b.get(b.store.list_events(f));
    REQUIRE(list.size() == 2);
    CHECK((list[0].id == two && list[1].id == one));
    CHECK(list[0].statuses == "pending 1");
    CHECK(list[1].header_names == std::vector<std::string>{"X-Token"});
    CHECK(admin::to_json(list).find("header-secret") == std::string::npos);
    f.status = "failed";
    CHECK(b.get(b.store.list_events(f)).empty());
    CHECK(b.get(b.store.body(one)).bytes == "{\"n\": 1}");
    const auto raw = b.get(b.store.body(b.get(b.store.find_event(query_value(b.uri, "SELECT event_id FROM outbox.event WHERE event_type = 'raw'")))));
    CHECK(raw.bytes == std::string("\0\xff\n", 3));
    CHECK_FALSE(raw.json);
}

TEST_CASE("a lost session is opened again by the next call, and a missing schema is said", "[admin][postgres]") {
    bench b;
    const auto id = b.event("t");
    CHECK(b.ask(b.store.why(id)).has_value());
    b.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
    auto after = b.ask(b.store.why(id));
    if (!after) after = b.ask(b.store.why(id));
    CHECK(after.has_value());
    b.sql("DROP SCHEMA outbox CASCADE");
    const auto gone = b.ask(b.store.status());
    REQUIRE_FALSE(gone.has_value());
    CHECK(gone.error().code == base::errc::database_schema);
    CHECK_THAT(gone.error().text, Contains("migrate --status"));
}

TEST_CASE("callers queue behind one session, and too many are refused at once", "[admin][postgres]") {
    bench b;
    auto options = b.options();
    options.max_waiting = 3;
    postgres::pg_operator_store store(b.loop.get_executor(), options);
    int good = 0;
    int busy = 0;
    for (int i = 0; i < 10; ++i) {
        boost::asio::co_spawn(b.loop, store.list_relays(), [&](std::exception_ptr, base::result<std::vector<ports::relay_view>> r) {
            good += r.has_value() ? 1 : 0;
            busy += !r.has_value() && r.error().code == base::errc::database_busy ? 1 : 0;
        });
    }
    b.loop.restart();
    while (good + busy < 10) b.loop.run_one();
    CHECK(good == 4);
    CHECK(busy == 6);
}

TEST_CASE("the API answers from the database as the commands do", "[admin][postgres]") {
    bench b;
    b.sql("INSERT INTO outbox.endpoint (name, url, events) VALUES ('a', 'https://a.example/?token=url-token', '{a}')");
    const auto id = b.event("a", ", event_id", ", 'evt_1'");
    boost::asio::io_context loop;
    postgres::pg_operator_store store(loop.get_executor(), b.options());
    admin::handlers h;
    h.store = &store;
    admin::options how;
    how.listen = "127.0.0.1:0";
    const auto listener = admin::make_listener(loop, how, h);
    std::thread thread([&] { loop.run(); });
    const auto port = listener->port();
    struct row {
        std::string path;
        int status;
        const char* text;
    };
    const row rows[] = {
        {"/api/v1/status", 200, "\"deliveries\":{\"due\":1"},
        {"/api/v1/events", 200, "[{\"id\":"},
        {"/api/v1/events?type=b", 200, "[]"},
        {"/api/v1/events/evt_1", 200, "\"attempts\":[]"},
        {"/api/v1/events/" + std::to_string(id), 200, "\"event_id\":\"evt_1\""},
        {"/api/v1/events/none", 404, "\"error\":\"no event"},
        {"/api/v1/deliveries?status=pending&endpoint=a", 200, "\"status\":\"pending\""},
        {"/api/v1/deliveries?limit=x", 400, "limit wants"},
        {"/api/v1/deliveries?limti=1", 400, "unknown parameter 'limti'"},
        {"/api/v1/endpoints", 200, "\"url\":\"https://a.example:443/\""},
        {"/api/v1/circuits", 200, "[]"},
        {"/api/v1/relays", 200, "[]"},
        {"/api/v1/why/evt_1", 200, "\"cause\":\"no_relay\""},
        {"/api/v1/why/none", 404, "no event"},
        {"/api/v1/nothing", 404, "no such path"},
        {"/api/v1/", 404, "no such path"},
    };
    for (const auto& r : rows) {
        CAPTURE(r.path);
        const auto reply = admin_test::get(port, r.path);
        CHECK(reply.status == r.status);
        CHECK_THAT(reply.body, Contains(r.text));
        CHECK(reply.body.find("url-token") == std::string::npos);
    }
    boost::asio::post(loop, [&] {
        listener->stop();
        store.close();
    });
    thread.join();  // the loop runs dry
}
