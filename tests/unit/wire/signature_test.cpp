#include <algorithm>

#include "base/encoding.hpp"
#include "support/catch.hpp"
#include "wire/signature/content_digest.hpp"
#include "wire/signature/github.hpp"
#include "wire/signature/rfc9421.hpp"
#include "wire/signature/sign.hpp"
#include "wire/signature/signing_key.hpp"
#include "wire/signature/standard_webhooks.hpp"
#include "wire/signature/stripe.hpp"

using namespace outboxd::wire;
using outboxd::base::base64_decode;
using outboxd::base::base64_encode;
using outboxd::base::base64url_decode;
using outboxd::base::secret;

namespace {

signing_key key_of(const std::string& text) {
    return signing_key::parse(secret{text}).value();
}
std::string seed_of(const char* base64url) {
    return "whsk_" + base64_encode(base64url_decode(base64url).value());
}

std::string standard(const std::vector<signing_key>& keys, const std::string& id, const std::string& timestamp, const std::string& body) {
    std::string out;
    append_standard_webhooks(out, keys, id, timestamp, body);
    return out;
}

const std::string sw_pair = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";

}  // namespace

TEST_CASE("Standard Webhooks: the vectors of the reference libraries [B44]", "[wire][signature]") {
    struct row {
        std::string secret, id, timestamp, body, signature;
    };
    const row rows[] = {
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", R"({"test": 2432232314})",
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {sw_pair, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", R"({"test": 2432232314})",
         "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="},
        {"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "1649367553", R"({"email":"test@example.com","username":"test_user"})",
         "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="},
    };
    for (const auto& r : rows) {
        CAPTURE(r.signature);
        const auto key = key_of(r.secret);
        // Twice: the key state is used again.
        CHECK(standard({key}, r.id, r.timestamp, r.body) == r.signature);
        CHECK(standard({key}, r.id, r.timestamp, r.body) == r.signature);
    }
}

TEST_CASE("a secret with and without its prefix is the same key [B44]", "[wire][signature]") {
    const auto prefixed = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    const auto bare = key_of("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    CHECK(prefixed.sign({"x"}) == bare.sign({"x"}));
    CHECK(prefixed.key_id() == bare.key_id());
    CHECK(prefixed.key_id().size() == 8);
}

TEST_CASE("during a rotation every secret signs, newest first [B44] [B70]", "[wire][signature]") {
    const auto both = standard({key_of("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"), key_of(sw_pair), key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")},
                               "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", R"({"test": 2432232314})");
    CHECK_THAT(
        both,
        Catch::Matchers::EndsWith(
            " v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    CHECK_THAT(both, Catch::Matchers::StartsWith("v1,"));
    CHECK(std::count(both.begin(), both.end(), ' ') == 2);
}

TEST_CASE("a malformed secret is refused and not repeated [B44]", "[wire][signature]") {
    const std::string sixty_four(64, 'a');
    const std::string rows[] = {"",
                                "whsec_",
                                "whsec_!!!k3y",
                                "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
                                " whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",    // 32 characters less 2: padding missing
                                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2Lab-_w",  // base64url
                                "whsec_a2V5IQ==",                          // 4 bytes
                                "whsec_" + base64_encode("fifteen bytes!!"),
                                "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                "whsk_" + base64_encode("sixteen bytes!!!"),
                                "whsk_" + base64_encode(sixty_four),  // public key of another seed
                                "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
                                "plain text password"};
    for (const auto& text : rows) {
        CAPTURE(text);
        const auto key = signing_key::parse(secret{text});
        REQUIRE_FALSE(key.has_value());
        if (text.size() > 8) CHECK(key.error().text.find(text.substr(text.size() - 8)) == std::string::npos);
    }
    CHECK(signing_key::parse(secret{"whsec_" + base64_encode("sixteen bytes!!!")}).has_value());
    CHECK_FALSE(signing_key::raw_hmac(secret{}).has_value());
}

TEST_CASE("an ed25519 key shows its public half", "[wire][signature]") {
    const auto key = key_of(sw_pair);
    CHECK(key.type() == signing_key::kind::ed25519);
    CHECK(key.public_text() == "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=");
    CHECK_THAT(key.public_jwk(), Catch::Matchers::Contains(R"("x":"1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4")"));
    CHECK(key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").public_text().empty());
}

TEST_CASE("generated secrets parse, sign and differ", "[wire][signature]") {
    const auto shared = generate_whsec();
    const auto pair = generate_whsk();
    CHECK(shared != generate_whsec());
    CHECK(pair != generate_whsk());
    CHECK(key_of(shared).sign({"x"}).size() == 32);
    CHECK(key_of(pair).sign({"x"}).size() == 64);
    CHECK(base64_decode(shared.substr(6))->size() == 32);
    CHECK(base64_decode(pair.substr(5))->size() == 64);
}

TEST_CASE("GitHub: the documented example", "[wire][signature]") {
    std::string out;
    append_github(out, signing_key::raw_hmac(secret{"It's a Secret to Everybody"}).value(), "Hello, World!");
    CHECK(out == "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
}

TEST_CASE("Stripe: timestamp and one v1 for each secret", "[wire][signature]") {
    const auto key = signing_key::raw_hmac(secret{"whsec_test_secret"}).value();
    const std::string expected = "t=1614265330,v1=10c96c6fd3f320fcfc264cdc4f476c15060ede8e8a08404cea2ddf3b72544a9c";
    std::string one;
    append_stripe(one, {key}, "1614265330", R"({"test": 2432232314})");
    CHECK(one == expected);
    std::string two;
    append_stripe(two, {signing_key::raw_hmac(secret{"other"}).value(), key}, "1614265330", R"({"test": 2432232314})");
    CHECK_THAT(two, Catch::Matchers::EndsWith(expected.substr(expected.find(",v1="))));
    CHECK(two.size() == expected.size() + 4 + 64);
}

TEST_CASE("Content-Digest of RFC 9530", "[wire][signature]") {
    const std::string body = R"({"hello": "world"})";
    const std::string field = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:";
    std::string out;
    append_content_digest(out, body);
    CHECK(out == field);
    CHECK(content_digest_matches(field, body));
    CHECK(content_digest_matches("sha-512=:AAAA:, " + field, body));
    CHECK_FALSE(content_digest_matches(field, body + "\n"));
    CHECK_FALSE(content_digest_matches("sha-512=:AAAA:", body));
    for (const auto* bad : {"", "sha-256=:", "sha-256=::", "sha-256=:!:", "sha-256"}) CHECK_FALSE(content_digest_matches(bad, body));
}

namespace {

// The request of RFC 9421 appendix B.2.
signed_request appendix_b2() {
    signed_request r{"POST", "https", "example.com", "/foo?param=Value&Pet=dog", {}};
    r.field = [](std::string_view name) -> std::optional<std::string> {
        if (name == "date") return "Tue, 20 Apr 2021 02:07:55 GMT";
        if (name == "content-type") return "application/json";
        if (name == "content-length") return "18";
        return std::nullopt;
    };
    return r;
}

}  // namespace

TEST_CASE("RFC 9421 appendix B.2.5: HMAC", "[wire][signature][rfc9421]") {
    const auto base = signature_base({"date", "@authority", "content-type"},
                                     R"(("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret")", appendix_b2())
                          .value();
    CHECK(base ==
          "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@authority\": example.com\n\"content-type\": application/json\n"
          "\"@signature-params\": (\"date\" \"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\"");
    const auto key = key_of("uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==");
    CHECK(base64_encode(key.sign({base})) == "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=");
}

TEST_CASE("RFC 9421 appendix B.2.6: ed25519", "[wire][signature][rfc9421]") {
    const auto base =
        signature_base({"date", "@method", "@path", "@authority", "content-type", "content-length"},
                       R"(("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519")", appendix_b2())
            .value();
    CHECK(base ==
          "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\"@authority\": example.com\n\"content-type\": "
          "application/json\n\"content-length\": 18\n"
          "\"@signature-params\": (\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" "
          "\"content-length\");created=1618884473;keyid=\"test-key-ed25519\"");
    const auto key = key_of(seed_of("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"));
    CHECK(key.public_text() == "whpk_" + base64_encode(base64url_decode("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs").value()));
    CHECK(base64_encode(key.sign({base})) == "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==");
}

TEST_CASE("derived components follow RFC 9421 section 2.2", "[wire][signature][rfc9421]") {
    const std::pair<const char*, const char*> rows[] = {{"@method", "POST"},
                                                        {"@authority", "example.com"},
                                                        {"@scheme", "https"},
                                                        {"@target-uri", "https://example.com/foo?param=Value&Pet=dog"},
                                                        {"@request-target", "/foo?param=Value&Pet=dog"},
                                                        {"@path", "/foo"},
                                                        {"@query", "?param=Value&Pet=dog"}};
    for (const auto& [name, value] : rows)
        CHECK(signature_base({name}, "()", appendix_b2()).value() == "\"" + std::string(name) + "\": " + value + "\n\"@signature-params\": ()");
    auto bare = appendix_b2();
    bare.target = "/";
    CHECK_THAT(signature_base({"@query"}, "()", bare).value(), Catch::Matchers::StartsWith("\"@query\": ?\n"));
    CHECK_FALSE(signature_base({"@status"}, "()", bare).has_value());
    CHECK_FALSE(signature_base({"x-missing"}, "()", bare).has_value());
}

TEST_CASE("AdCP: compliance vector webhook-signing positive 001", "[wire][signature][rfc9421]") {
    const std::string body =
        R"({"idempotency_key":"whk_01HW9D3H8FZP2N6R8T0V4X6Z9B","task_id":"task_456","operation_id":"op_abc","status":"completed","result":{"media_buy_id":"mb_001"}})";
    const auto key = key_of(seed_of("V0Z2ktvVfcWISjh4xmUlt-bSOJML9QBlzWzDkMFvgJw"));
    const auto nonce = base64url_decode("KXYnfEfJ0PBRZXQyVXfVQA").value();
    const auto params = signature_params(signing_scheme::adcp, covered_components(signing_scheme::adcp), 1776520800, "KXYnfEfJ0PBRZXQyVXfVQA", key,
                                         "test-ed25519-webhook-2026");
    CHECK(
        params ==
        R"(("@method" "@target-uri" "@authority" "content-type" "content-digest");created=1776520800;expires=1776521100;nonce="KXYnfEfJ0PBRZXQyVXfVQA";keyid="test-ed25519-webhook-2026";alg="ed25519";tag="adcp/webhook-signing/v1")");
    signed_request request{"POST", "https", "buyer.example.com", "/adcp/webhook/create_media_buy/agent_123/op_abc", {}};
    request.field = [&](std::string_view name) -> std::optional<std::string> {
        if (name == "content-type") return "application/json";
        std::string digest;
        append_content_digest(digest, body);
        CHECK(digest == "sha-256=:dJ2koiIMZIhdGE7tidErCHV13FFvOIowCcXDiwyG54I=:");
        return digest;
    };
    const auto text = signature_base(covered_components(signing_scheme::adcp), params, request).value();
    CHECK(outboxd::base::base64url_encode(key.sign({text})) == "nqTKCpjlqf1OqZPuJyPeiF7HJ01G8KmPNSzzmad0PAJv7OUVKthI7ks_j4G-6x1H4mBpXDIISgX_iZQiYvG7Dg");

    // The fields as sent: the same but for the key id; base64url for `adcp`, standard base64 for `adcp-base64`.
    const signature_input in{"POST", "https", request.authority, request.target, "application/json", "id1", "1776520800", 1776520800, body, nonce};
    std::string url_form;
    REQUIRE(append_signature_fields(url_form, {signing_scheme::adcp, {key}}, in).has_value());
    CHECK_THAT(url_form, Catch::Matchers::Contains("Signature-Input: sig1=(\"@method\" \"@target-uri\""));
    std::string standard_form;
    REQUIRE(append_signature_fields(standard_form, {signing_scheme::adcp_base64, {key}}, in).has_value());
    CHECK_THAT(standard_form, Catch::Matchers::EndsWith("==:\r\n"));
    CHECK(url_form.find("==:") == std::string::npos);
}

TEST_CASE("adcp refuses what it cannot sign and leaves the head as it was", "[wire][signature][rfc9421]") {
    std::string head = "before";
    const signature_input in{"POST", "https", "h", "/", "a/b", "id", "1", 1, "body", "sixteen bytes!!!"};
    CHECK_FALSE(append_signature_fields(head, {signing_scheme::adcp, {key_of(generate_whsec())}}, in).has_value());
    auto no_nonce = in;
    no_nonce.nonce = {};
    CHECK_FALSE(append_signature_fields(head, {signing_scheme::adcp, {key_of(generate_whsk())}}, no_nonce).has_value());
    CHECK(head == "before");
    CHECK(append_signature_fields(head, {signing_scheme::none, {key_of(generate_whsk())}}, in).has_value());
    CHECK(append_signature_fields(head, {signing_scheme::adcp, {}}, in).has_value());
    CHECK(head == "before");
}

TEST_CASE("a signing key is made as its scheme wants it", "[wire][signature]") {
    CHECK(make_signing_key(signing_scheme::github, secret{"any text"}).has_value());
    CHECK(make_signing_key(signing_scheme::stripe, secret{"whsec_test_secret"}).has_value());
    CHECK_FALSE(make_signing_key(signing_scheme::standard_webhooks, secret{"any text"}).has_value());
    CHECK_FALSE(make_signing_key(signing_scheme::adcp, secret{generate_whsec()}).has_value());
    CHECK(make_signing_key(signing_scheme::rfc9421, secret{generate_whsec()}).has_value());
    for (const auto* name : {"none", "standard-webhooks", "rfc9421", "adcp", "adcp-base64", "github", "stripe"})
        CHECK(to_string(parse_signing_scheme(name).value()) == name);
    CHECK_FALSE(parse_signing_scheme("Standard-Webhooks").has_value());
}
