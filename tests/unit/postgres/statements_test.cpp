#include "postgres/statements.hpp"

#include "postgres/migrations.hpp"
#include "postgres/row_mapping.hpp"
#include "support/catch.hpp"

using namespace outboxd;

TEST_CASE("the schema's name is quoted, and put in everywhere", "[postgres]") {
    CHECK(postgres::quote_identifier("outbox") == "\"outbox\"");
    CHECK(postgres::quote_identifier("a\"b") == "\"a\"\"b\"");
    CHECK(postgres::with_schema("@schema@.a, @schema@.b @schem@", "x") == "\"x\".a, \"x\".b @schem@");
    const postgres::statements sql{"user"};
    CHECK(sql.claim.find("\"user\".claim(") != std::string::npos);
    CHECK(sql.shape.find("@schema@") == std::string::npos);
    CHECK(postgres::wake_channel("outbox") == "outbox_wake");
    CHECK(postgres::wake_channel(std::string(63, 'x')).size() == 63);
}

TEST_CASE("the embedded migrations are numbered without gaps and carry their checksums", "[postgres]") {
    const auto all = postgres::migrations();
    REQUIRE(!all.empty());
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].version == static_cast<int>(i) + 1);
        CHECK(all[i].checksum.size() == 64);
        CHECK(!all[i].name.empty());
        CHECK(all[i].text.find("@schema@") != std::string_view::npos);
    }
    CHECK(postgres::newest_migration() == all.back().version);
}

TEST_CASE("parameters lie one after the other, NULL has no bytes, text ends with NUL", "[postgres]") {
    postgres::params p;
    p.int4(1).text("ab").null().typed_text(std::nullopt).typed_text("");
    const auto w = p.wire();
    REQUIRE(p.count() == 5);
    CHECK(w.types == std::vector<std::uint32_t>{23, 0, 0, 25, 25});
    CHECK(w.formats == std::vector<int>{1, 0, 0, 1, 1});
    CHECK(w.lengths == std::vector<int>{4, 2, 0, 0, 0});
    CHECK(std::string_view{w.values[0], 4} == std::string_view{"\0\0\0\1", 4});
    CHECK(std::string{w.values[1]} == "ab");
    CHECK(w.values[2] == nullptr);
    CHECK(w.values[3] == nullptr);
    CHECK(w.values[4] != nullptr);
}

TEST_CASE("claim and settle send as many parameters as their functions take", "[postgres]") {
    ports::claim_request ask;
    ask.lanes.push_back({"a", 1, std::nullopt, ""});
    ask.lanes.push_back({"b", 2, ports::lane_bound{}, "key"});
    CHECK(postgres::claim_params(ask).count() == 14);
    lifecycle::settlement s;
    CHECK(postgres::settle_params(1, {s, s}, base::boot_clock::now()).count() == 14);
}

TEST_CASE("a claim's reply with other columns is a changed schema, not a wrong row", "[postgres][B77]") {
    const auto reply = postgres::read_claim(postgres::query_result{});
    REQUIRE(!reply);
    CHECK(reply.error().code == base::errc::database_schema);
}
