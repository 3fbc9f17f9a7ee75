#include "wire/request.hpp"

#include <algorithm>
#include <chrono>

#include "support/catch.hpp"
#include "wire/signature/sign.hpp"
#include "wire/signature/verify.hpp"

using namespace outboxd::wire;
using namespace std::chrono_literals;
using outboxd::base::secret;
using outboxd::base::wall_time;

namespace {

const wall_time now{std::chrono::sys_seconds{1614265330s} + 999ms};
const std::string secret_text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

event an_order() {
    event e;
    e.id = 42;
    e.event_id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    e.event_type = "order.created";
    e.body = R"({"test": 2432232314})";
    e.created_at = wall_time{std::chrono::sys_seconds{1614265000s} + 120457us};
    return e;
}

request_profile signed_profile() {
    request_profile p;
    p.signer.keys.push_back(signing_key::parse(secret{secret_text}).value());
    return p;
}

request built(const request_builder& builder, const event& e, int attempt = 1, std::optional<body_format> pinned = {}, wall_time at = now,
              std::string_view nonce = {}) {
    request out;
    const auto refused = builder.build(e, attempt, pinned, at, nonce, out);
    if (refused) FAIL(refused->text);
    return out;
}

request_builder builder_of(request_profile profile, const char* address = "https://billing.example.com/hooks?a=%2F") {
    return {parse_url(address).value(), std::move(profile), "outboxd/0.1.0"};
}

std::vector<std::string> names_of(const std::string& head) {
    std::vector<std::string> out;
    for (std::size_t at = head.find("\r\n") + 2; at + 2 < head.size(); at = head.find("\r\n", at) + 2) out.push_back(head.substr(at, head.find(':', at) - at));
    return out;
}

}  // namespace

TEST_CASE("the head is the contract's, byte for byte [B70]", "[wire][request]") {
    auto profile = signed_profile();
    profile.own_headers = {{"X-Own", "one"}};
    auto e = an_order();
    e.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    e.tracestate = "a=b";
    e.headers = R"({"X-Event": "two"})";
    const auto r = built(builder_of(profile), e, 3);
    CHECK(r.head ==
          "POST /hooks?a=%2F HTTP/1.1\r\n"
          "Host: billing.example.com\r\n"
          "User-Agent: outboxd/0.1.0\r\n"
          "Content-Type: application/json\r\n"
          "Content-Length: 20\r\n"
          "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n"
          "webhook-timestamp: 1614265330\r\n"
          "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n"
          "Idempotency-Key: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n"
          "Outbox-Event-Type: order.created\r\n"
          "Outbox-Attempt: 3\r\n"
          "Outbox-Sequence: 42\r\n"
          "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
          "tracestate: a=b\r\n"
          "X-Own: one\r\n"
          "X-Event: two\r\n"
          "\r\n");
    CHECK(r.body_view(e) == e.body);
}

TEST_CASE("body, id and key stay the same from attempt to attempt [B71]", "[wire][request]") {
    for (const auto format : {body_format::raw, body_format::enriched, body_format::cloudevents_binary, body_format::cloudevents_structured}) {
        auto profile = signed_profile();
        profile.format = format;
        const auto builder = builder_of(profile);
        const auto e = an_order();
        const auto first = built(builder, e, 1);
        const auto later = built(builder, e, 7, {}, now + 24h);
        CHECK(first.body_view(e) == later.body_view(e));
        CHECK(first.head.find("webhook-timestamp: 1614265330") != std::string::npos);
        CHECK(later.head.find("webhook-timestamp: 1614351730") != std::string::npos);
        for (const auto* same : {"webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n", "Idempotency-Key: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n"}) {
            CHECK(first.head.find(same) != std::string::npos);
            CHECK(later.head.find(same) != std::string::npos);
        }
    }
}

TEST_CASE("a re-used request carries nothing over", "[wire][request]") {
    auto structured = signed_profile();
    structured.format = body_format::enriched;
    request out;
    const auto e = an_order();
    CHECK_FALSE(builder_of(structured).build(e, 1, {}, now, {}, out));
    CHECK_FALSE(out.body.empty());
    CHECK_FALSE(builder_of(signed_profile()).build(e, 1, {}, now, {}, out));
    CHECK(out.body.empty());
    CHECK(out.head == built(builder_of(signed_profile()), e).head);
}

TEST_CASE("the format of the first attempt stays, whatever the endpoint says now [B71]", "[wire][request]") {
    const auto e = an_order();
    const auto r = built(builder_of(signed_profile()), e, 2, body_format::cloudevents_structured);
    CHECK_FALSE(r.body_is_event);
    CHECK(r.head.find("Content-Type: application/cloudevents+json\r\n") != std::string::npos);
}

TEST_CASE("Host has a port only when it is not the default [B35]", "[wire][request]") {
    const std::pair<const char*, const char*> rows[] = {
        {"https://h.example:443/", "Host: h.example\r\n"}, {"https://h.example:8443/", "Host: h.example:8443\r\n"}, {"https://[::1]:9/", "Host: [::1]:9\r\n"}};
    for (const auto& [address, line] : rows) CHECK(built(builder_of({}, address), an_order()).head.find(line) != std::string::npos);
}

TEST_CASE("without a secret the request is sent unsigned", "[wire][request]") {
    const auto names = names_of(built(builder_of({}), an_order()).head);
    CHECK(std::find(names.begin(), names.end(), "webhook-signature") == names.end());
    CHECK(std::find(names.begin(), names.end(), "webhook-id") != names.end());
    CHECK(std::find(names.begin(), names.end(), "webhook-timestamp") != names.end());
}

TEST_CASE("the structured idempotency key is an RFC 8941 string", "[wire][request]") {
    auto profile = signed_profile();
    profile.key_format = idempotency_key_format::structured;
    CHECK(built(builder_of(profile), an_order()).head.find("Idempotency-Key: \"msg_p5jXN8AQM9LWM0D4loKWxJek\"\r\n") != std::string::npos);
}

TEST_CASE("a header of the event replaces the endpoint's of any case, once [B34]", "[wire][request]") {
    request_profile profile;
    profile.own_headers = {{"X-Team", "billing"}, {"X-Keep", " kept "}};
    auto e = an_order();
    e.headers = R"({"x-team": "sales"})";
    const auto head = built(builder_of(profile), e).head;
    CHECK(head.find("X-Team") == std::string::npos);
    CHECK(head.find("x-team: sales\r\n") != std::string::npos);
    CHECK(head.find("X-Keep: kept\r\n") != std::string::npos);
}

TEST_CASE("an event that can never be sent is refused with its kind [B10] [B34] [B71]", "[wire][request]") {
    struct row {
        const char* name;
        void (*spoil)(event&);
        refusal_kind kind;
    };
    const row rows[] = {
        {"headers are an array", [](event& e) { e.headers = "[1]"; }, refusal_kind::header},
        {"header replaces Host", [](event& e) { e.headers = R"({"host":"evil"})"; }, refusal_kind::header},
        {"header injects a line", [](event& e) { e.headers = R"({"x":"a\r\nb: c"})"; }, refusal_kind::header},
        {"traceparent", [](event& e) { e.traceparent = "00-zz"; }, refusal_kind::header},
        {"tracestate", [](event& e) { e.tracestate = "a\r\nb"; }, refusal_kind::header},
        {"content type", [](event& e) { e.content_type = "text/plain\r\nX: y"; }, refusal_kind::header},
        {"id with CR LF", [](event& e) { e.event_id = "a\r\nb"; }, refusal_kind::header},
        {"empty id", [](event& e) { e.event_id.clear(); }, refusal_kind::header},
        {"id with a dot", [](event& e) { e.event_id = "a.b"; }, refusal_kind::header},
        {"id of 300", [](event& e) { e.event_id = std::string(300, 'a'); }, refusal_kind::header},
        {"id not ASCII", [](event& e) { e.event_id = "\xc3\xa9"; }, refusal_kind::header},
        {"type with a line end", [](event& e) { e.event_type = "a\nb"; }, refusal_kind::header},
        {"body not fetched", [](event& e) { e.body_left_out = true; }, refusal_kind::payload},
    };
    const auto builder = builder_of(signed_profile());
    for (const auto& r : rows) {
        CAPTURE(r.name);
        auto e = an_order();
        r.spoil(e);
        request out;
        const auto refused = builder.build(e, 1, {}, now, {}, out);
        REQUIRE(refused.has_value());
        CHECK(refused->kind == r.kind);
        CHECK_FALSE(refused->text.empty());
    }
}

TEST_CASE("a scheme that cannot use the key is a refusal of kind signing", "[wire][request]") {
    auto profile = signed_profile();
    profile.signer.scheme = signing_scheme::adcp;
    request out;
    const auto refused = builder_of(profile).build(an_order(), 1, {}, now, "sixteen bytes!!!", out);
    REQUIRE(refused.has_value());
    CHECK(refused->kind == refusal_kind::signing);
}

TEST_CASE("the bytes of the payload arrive as they are, whatever they are [B69]", "[wire][request]") {
    using namespace std::string_literals;
    const std::string bodies[] = {R"({"b":1, "a":1.0, "a":12345678901234567890})",
                                  "9007199254740993",
                                  "1e400",
                                  "-0",
                                  "0.10",
                                  " {} \r\n",
                                  R"("\u0000\/\ud800")",
                                  "null",
                                  "",
                                  "\x00\xff\x01"s,
                                  std::string(100000, '[')};
    const auto builder = builder_of(signed_profile());
    for (const auto& body : bodies) {
        auto e = an_order();
        e.body = body;
        const auto r = built(builder, e);
        CHECK(r.body_view(e) == body);
        CHECK(r.head.find("Content-Length: " + std::to_string(body.size()) + "\r\n") != std::string::npos);
    }
}

TEST_CASE("what is sent verifies with what is sent, in every format and scheme [B70]", "[wire][request][verify]") {
    const auto pair = generate_whsk();
    struct row {
        signing_scheme scheme;
        std::string secret;
        bool covers_attempts;
    };
    const row rows[] = {{signing_scheme::standard_webhooks, secret_text, true},
                        {signing_scheme::standard_webhooks, pair, true},
                        {signing_scheme::rfc9421, secret_text, true},
                        {signing_scheme::rfc9421, pair, true},
                        {signing_scheme::adcp, pair, true},
                        {signing_scheme::adcp_base64, pair, true},
                        {signing_scheme::github, "plain text", false},
                        {signing_scheme::stripe, "whsec_text", true}};
    for (const auto& r : rows) {
        for (const auto format : {body_format::raw, body_format::enriched, body_format::cloudevents_binary, body_format::cloudevents_structured}) {
            CAPTURE(to_string(r.scheme), to_string(format));
            request_profile profile;
            profile.format = format;
            profile.signer = {r.scheme, {make_signing_key(r.scheme, secret{r.secret}).value()}};
            const auto e = an_order();
            const auto sent = built(builder_of(profile), e, 1, {}, now, "sixteen bytes!!!");
            received_request got;
            got.target = "/hooks?a=%2F";
            got.body = std::string(sent.body_view(e));
            for (std::size_t at = sent.head.find("\r\n") + 2; at + 2 < sent.head.size(); at = sent.head.find("\r\n", at) + 2) {
                const auto colon = sent.head.find(':', at);
                got.headers.emplace_back(sent.head.substr(at, colon - at), sent.head.substr(colon + 1, sent.head.find("\r\n", at) - colon - 1));
            }
            const std::vector<verification_key> keys{verification_key::parse(r.scheme, secret{r.secret}).value()};
            const auto fine = verify_request(r.scheme, keys, got, now + 10s, 300s);
            CAPTURE(fine.text);
            CHECK(fine.valid);
            auto altered = got;
            altered.body += ' ';
            CHECK_FALSE(verify_request(r.scheme, keys, altered, now, 300s).valid);
            if (r.covers_attempts) {
                CHECK_FALSE(verify_request(r.scheme, keys, got, now + 301s, 300s).valid);
                CHECK_FALSE(verify_request(r.scheme, keys, got, now - 302s, 300s).valid);
                CHECK(verify_request(r.scheme, keys, got, now + 9000h, 0s).valid);
            }
        }
    }
}
