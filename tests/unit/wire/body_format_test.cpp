#include "wire/body_format.hpp"

#include <chrono>

#include "support/catch.hpp"
#include "wire/idempotency_key.hpp"

using namespace outboxd::wire;
using namespace std::string_literals;

namespace {

event an_event() {
    event e;
    e.id = 9007199254740993;
    e.event_id = "ev_1";
    e.event_type = "order.created";
    e.body = "{\"b\":1, \"a\":1.0}\n";
    e.created_at = outboxd::base::wall_time{std::chrono::sys_seconds{std::chrono::seconds{1796065427}} + std::chrono::microseconds{120999}};
    return e;
}

std::string body_of(body_format format, const event& e) {
    std::string out;
    append_body(out, format, e);
    return out;
}

std::string fields_of(const event& e) {
    std::string out;
    append_cloudevents_fields(out, e);
    return out;
}

}  // namespace

TEST_CASE("enriched: the envelope holds the payload's own bytes [B69]", "[wire][body]") {
    auto e = an_event();
    CHECK(body_of(body_format::enriched, e) ==
          "{\"id\":\"ev_1\",\"type\":\"order.created\",\"sequence\":9007199254740993,\"created_at\":\"2026-11-30T19:03:47.120Z\",\"tenant\":null,\"subject\":"
          "null,\"source\":null,"
          "\"data\":{\"b\":1, \"a\":1.0}\n}");
    e.tenant_id = "t\"1";
    e.subject = "line\nend";
    e.source = "/shop";
    e.content_type = "application/vnd.api+json";
    CHECK(body_of(body_format::enriched, e) ==
          "{\"id\":\"ev_1\",\"type\":\"order.created\",\"sequence\":9007199254740993,\"created_at\":\"2026-11-30T19:03:47.120Z\",\"tenant\":\"t\\\"1\","
          "\"subject\":\"line\\nend\",\"source\":\"/shop\","
          "\"content_type\":\"application/vnd.api+json\",\"data\":{\"b\":1, \"a\":1.0}\n}");
}

TEST_CASE("enriched: bytes travel as base64 beside their type [B69]", "[wire][body]") {
    auto e = an_event();
    e.body_is_json = false;
    e.body = "\x00\xff{"s;
    CHECK_THAT(body_of(body_format::enriched, e), Catch::Matchers::EndsWith(",\"content_type\":\"application/octet-stream\",\"data_base64\":\"AP97\"}"));
}

TEST_CASE("cloudevents-structured: required attributes, optional ones only when set", "[wire][body]") {
    auto e = an_event();
    CHECK(body_of(body_format::cloudevents_structured, e) ==
          "{\"specversion\":\"1.0\",\"id\":\"ev_1\",\"source\":\"urn:outboxd\",\"type\":\"order.created\",\"time\":\"2026-11-30T19:03:47.120Z\",\"sequence\":"
          "\"9007199254740993\","
          "\"datacontenttype\":\"application/json\",\"data\":{\"b\":1, \"a\":1.0}\n}");
    e.source = "/shop";
    e.subject = "order/1";
    e.tenant_id = "t1";
    e.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    e.tracestate = "a=b";
    CHECK_THAT(body_of(body_format::cloudevents_structured, e),
               Catch::Matchers::StartsWith(
                   "{\"specversion\":\"1.0\",\"id\":\"ev_1\",\"source\":\"/shop\",\"type\":\"order.created\",\"subject\":\"order/1\",\"time\":") &&
                   Catch::Matchers::Contains(
                       "\"tenantid\":\"t1\",\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\",\"tracestate\":\"a=b\","));
    e.subject = "";  // CloudEvents 1.0: present means not empty
    CHECK(body_of(body_format::cloudevents_structured, e).find("subject") == std::string::npos);
}

TEST_CASE("cloudevents-structured: data is JSON only where its media type is", "[wire][body]") {
    struct row {
        bool json;
        const char* content_type;
        bool verbatim;
    };
    const row rows[] = {{true, "", true},
                        {true, "application/problem+json", true},
                        {true, "text/json; charset=utf-8", true},
                        {true, "Application/JSON", true},
                        {true, "text/plain", false},
                        {false, "", false},
                        {false, "application/json", false}};
    for (const auto& r : rows) {
        CAPTURE(r.content_type);
        auto e = an_event();
        e.body_is_json = r.json;
        e.content_type = r.content_type;
        const auto body = body_of(body_format::cloudevents_structured, e);
        CHECK((body.find("\"data\":") != std::string::npos) == r.verbatim);
        CHECK((body.find("\"data_base64\":") != std::string::npos) != r.verbatim);
    }
}

TEST_CASE("cloudevents-binary: attributes are fields, percent-encoded by the HTTP binding", "[wire][body]") {
    auto e = an_event();
    CHECK(fields_of(e) ==
          "ce-specversion: 1.0\r\nce-id: ev_1\r\nce-source: urn:outboxd\r\nce-type: order.created\r\nce-time: 2026-11-30T19:03:47.120Z\r\nce-sequence: "
          "9007199254740993\r\n");
    e.subject = "Euro \xe2\x82\xac \xf0\x9f\x98\x80\r\nX: y";
    e.tenant_id = "a\"b%";
    CHECK_THAT(fields_of(e), Catch::Matchers::Contains("ce-subject: Euro%20%E2%82%AC%20%F0%9F%98%80%0D%0AX:%20y\r\n") &&
                                 Catch::Matchers::Contains("ce-tenantid: a%22b%25\r\n"));
    CHECK(body_of(body_format::cloudevents_binary, e) == e.body);
}

TEST_CASE("the content type follows the format, the event and its column", "[wire][body]") {
    struct row {
        body_format format;
        bool json;
        const char* own;
        const char* expected;
    };
    const row rows[] = {
        {body_format::raw, true, "", "application/json"},
        {body_format::raw, false, "", "application/octet-stream"},
        {body_format::raw, false, "text/csv", "text/csv"},
        {body_format::raw, true, "application/vnd.api+json", "application/vnd.api+json"},
        {body_format::cloudevents_binary, false, "text/csv", "text/csv"},
        {body_format::cloudevents_binary, true, "", "application/json"},
        {body_format::cloudevents_structured, false, "text/csv", "application/cloudevents+json"},
        {body_format::enriched, false, "text/csv", "application/json"},
    };
    for (const auto& r : rows) {
        auto e = an_event();
        e.body_is_json = r.json;
        e.content_type = r.own;
        CHECK(content_type_of(r.format, e) == r.expected);
    }
}

TEST_CASE("formats have names", "[wire][body]") {
    for (const auto* name : {"raw", "enriched", "cloudevents-binary", "cloudevents-structured"}) CHECK(to_string(parse_body_format(name).value()) == name);
    CHECK_FALSE(parse_body_format("cloudevents").has_value());
}

TEST_CASE("structured strings are quoted and escaped by RFC 8941", "[wire][idempotency]") {
    std::string out;
    append_sf_string(out, "a\"b\\c");
    CHECK(out == "\"a\\\"b\\\\c\"");
}

TEST_CASE("event ids are 1 to 128 of A-Za-z0-9_- [B71]", "[wire][idempotency]") {
    for (const auto& good : {"a"s, "0b2d6a9e-1f0a-4b57-8a43-0d4f6f9e6a11"s, "A_b-9"s, std::string(128, 'x')}) CHECK(is_event_id(good));
    for (const auto& bad : {""s, std::string(129, 'x'), "a.b"s, "a b"s, "a\r\n"s, "\xc3\xa9"s, "a\0"s, "a\"b"s}) CHECK_FALSE(is_event_id(bad));
}
