#include "postgres/sqlstate.hpp"

#include "support/catch.hpp"

using namespace outboxd;
using base::errc;

TEST_CASE("every SQLSTATE has one meaning, unknown ones are plain errors", "[postgres]") {
    struct example {
        const char* state;
        errc code;
        bool ends;
    };
    const example examples[] = {
        {"OB001", errc::lease_lost, false},          {"08006", errc::database_unreachable, true},  {"08P01", errc::database_unreachable, true}, {"25006", errc::database_read_only, true},
        {"28P01", errc::database_denied, true},      {"28000", errc::database_denied, true},       {"3D000", errc::database_schema, true},      {"3F000", errc::database_schema, false},
        {"40001", errc::database_busy, false},       {"40P01", errc::database_busy, false},        {"42501", errc::database_denied, false},     {"42P01", errc::database_schema, false},
        {"42703", errc::database_schema, false},     {"42883", errc::database_schema, false},      {"42804", errc::database_schema, false},     {"53100", errc::database_busy, false},
        {"53300", errc::database_busy, true},        {"55P03", errc::database_busy, false},        {"57014", errc::database_busy, false},       {"57P01", errc::database_unreachable, true},
        {"57P03", errc::database_unreachable, true}, {"57P05", errc::database_unreachable, true},  {"22012", errc::database_error, false},      {"23505", errc::database_error, false},
        {"XX000", errc::database_error, false},      {"", errc::database_error, false},
    };
    for (const auto& e : examples) {
        INFO(e.state);
        CHECK(postgres::classify(e.state) == e.code);
        CHECK(postgres::ends_session(e.state) == e.ends);
    }
}

TEST_CASE("the SQLSTATE of a refused login is found in any language, and nothing is found where there is none", "[postgres]") {
    CHECK(postgres::find_sqlstate("FATAL:  28P01: password authentication failed for user \"u\"\nLOCATION:  auth_failed, auth.c:338\n") == "28P01");
    CHECK(postgres::find_sqlstate("FATALE:  57P03: das Datenbanksystem startet\n") == "57P03");
    CHECK(postgres::find_sqlstate("note:  Hello: x\nFATAL:  3D000: database \"d\" does not exist") == "3D000");
    CHECK(postgres::find_sqlstate("Connection refused\n\tIs the server running?").empty());
    CHECK(postgres::find_sqlstate("FATAL:  ABCDE: no digits").empty());
    CHECK(postgres::find_sqlstate("").empty());
    CHECK(postgres::find_sqlstate("x:  28P0").empty());
}
