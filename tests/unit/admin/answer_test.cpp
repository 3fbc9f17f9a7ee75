#include "admin/answer.hpp"

#include "support/catch.hpp"

using namespace outboxd::admin;

TEST_CASE("a target is split and decoded once", "[admin][target]") {
    const auto q = parse_target("/api/v1/why/a%20b?type=order.%2A&limit=5&empty=&flag&&x=1+2");
    REQUIRE(q.has_value());
    CHECK(q->path == "/api/v1/why/a b");
    CHECK(q->query.at("type") == "order.*");
    CHECK(q->query.at("limit") == "5");
    CHECK(q->query.at("empty").empty());
    CHECK(q->query.at("flag").empty());
    CHECK(q->query.at("x") == "1 2");
    CHECK(parse_target("/p%2525")->path == "/p%25");
}

TEST_CASE("targets that cannot be read are refused", "[admin][target]") {
    for (const char* bad : {"", "*", "healthz", "/%", "/%4", "/%zz", "/%00", "/a?x=%ff%fe", "/?a=1&a=2"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_target(bad).has_value());
    }
}
