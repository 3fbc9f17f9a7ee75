#include "admin/json_writer.hpp"

#include "support/catch.hpp"

using outboxd::admin::json_writer;

TEST_CASE("a document has its commas and escapes in place", "[admin][json]") {
    json_writer w;
    w.begin_object()
        .member("text", "a\"b\\c\n\x01")
        .member("n", 7)
        .member("big", std::int64_t{9007199254740993})
        .member("yes", true)
        .member("none", std::optional<std::string>{});
    w.key("list").begin_array().value(1).value("two").begin_object().end_object().begin_array().end_array().end_array();
    w.key("raw").raw("{\"k\":1}").text_or_null("empty", "").end_object();
    CHECK(w.text() ==
          "{\"text\":\"a\\\"b\\\\c\\n\\u0001\",\"n\":7,\"big\":9007199254740993,\"yes\":true,\"none\":null,\"list\":[1,\"two\",{},[]],\"raw\":{\"k\":1},"
          "\"empty\":null}");
}

TEST_CASE("numbers are JSON numbers, short and never NaN", "[admin][json]") {
    struct row {
        double value;
        const char* text;
    };
    const row rows[] = {{0, "0"}, {-0.0001, "0"}, {1.5, "1.5"}, {60, "60"}, {0.123456, "0.123"}, {100.1, "100.1"}, {1e300 * 1e300, "null"}, {-2.25, "-2.25"}};
    for (const auto& r : rows) {
        json_writer w;
        w.value(r.value);
        CHECK(w.text() == r.text);
    }
}
