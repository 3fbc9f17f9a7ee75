// The endpoints of the configuration file and the table.
#include "postgres/endpoint_sync.hpp"
#include "postgres_bench.hpp"

using namespace outboxd;
using namespace outboxd::integration;

TEST_CASE("endpoints of the file are kept in step: added, changed, taken over, disabled when they leave, back when they return", "[postgres][sync]") {
    const auto url = postgres_cluster::shared().create_database();
    migrate(url);
    testkit::query(url, "insert into outbox.endpoint (name, url) values ('legacy', 'https://old.example.com/'), ('by-hand', 'https://hand.example.com/')");
    const auto sync = [&](std::vector<config::endpoint_config> list, int inline_limit = 64) {
        auto c = std::make_shared<config::config>();
        c->endpoints = std::move(list);
        c->routing.inline_limit = inline_limit;
        asio::io_context loop;
        auto r = postgres::run_until_done<postgres::sync_report>(loop, postgres::sync_endpoints(loop.get_executor(), to(url), "outbox", c));
        REQUIRE(good(r));
        return *r;
    };
    const auto endpoint = [](std::string name, std::string address, std::vector<std::string> secrets = {}) {
        config::endpoint_config e;
        e.name = std::move(name);
        e.url = std::move(address);
        e.events = {"order.*"};
        for (auto& s : secrets) e.secrets.emplace_back(std::move(s));
        return e;
    };
    const auto digest = [&] { return testkit::query_value(url, "select outbox.endpoint_digest()"); };
    const auto value = [&](const std::string& what, const std::string& name) { return testkit::query_value(url, "select coalesce((" + what + ")::text, '') from outbox.endpoint where name = '" + name + "'"); };

    auto r = sync({endpoint("billing", "https://a/", {"new", "old"}), endpoint("legacy", "https://b/")});
    CHECK(r.added == std::vector<std::string>{"billing"});
    CHECK(r.taken_over == std::vector<std::string>{"legacy"});
    CHECK(value("managed_by", "legacy") == "config");
    CHECK(value("managed_by", "by-hand") == "sql");
    CHECK(testkit::query_value(url, "select string_agg(secret, ',' order by created_at desc, id desc) from outbox.endpoint_secret where endpoint = 'billing'") == "new,old");
    auto before = digest();
    r = sync({endpoint("billing", "https://a/", {"new", "old"}), endpoint("legacy", "https://b/")});
    CHECK((r.added.empty() && r.changed.empty() && r.taken_over.empty() && r.removed.empty()));
    CHECK(digest() == before);

    r = sync({endpoint("billing", "https://a/", {"newest", "new"}), endpoint("legacy", "https://c/")}, 7);
    CHECK(r.changed == std::vector<std::string>{"billing", "legacy"});
    CHECK(testkit::query_value(url, "select value from outbox.setting where name = 'inline_limit'") == "7");
    r = sync({endpoint("legacy", "https://c/")});
    CHECK(r.removed == std::vector<std::string>{"billing"});
    CHECK(value("enabled", "billing") == "false");
    CHECK(value("disabled_reason", "billing") == "removed from the configuration file");
    CHECK(value("enabled", "by-hand") == "true");
    r = sync({endpoint("legacy", "https://c/"), endpoint("billing", "https://a/", {"newest", "new"})});
    CHECK(value("enabled", "billing") == "true");
    CHECK(value("disabled_reason", "billing").empty());

    testkit::query(url, "update outbox.endpoint set enabled = false, disabled_reason = '410 Gone' where name = 'billing'");
    auto off = endpoint("legacy", "https://c/");
    off.enabled = false;
    sync({off, endpoint("billing", "https://a/", {"newest", "new"})});
    CHECK(value("disabled_reason", "billing") == "410 Gone");
    CHECK(value("enabled", "billing") == "false");
    CHECK(value("enabled", "legacy") == "false");
    auto held = endpoint("legacy", "https://c/");
    held.paused = true;
    sync({held});
    CHECK(value("enabled", "legacy") == "true");
    CHECK(value("paused", "legacy") == "true");
    sync({endpoint("legacy", "https://c/")});
    CHECK(value("paused", "legacy") == "false");
    testkit::query(url, "update outbox.endpoint set paused = true where name = 'legacy'");
    sync({endpoint("legacy", "https://c/")});
    CHECK(value("paused", "legacy") == "true");
}
