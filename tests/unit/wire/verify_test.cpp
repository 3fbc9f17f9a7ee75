#include "wire/signature/verify.hpp"

#include <chrono>

#include "support/catch.hpp"
#include "wire/signature/signature_input_field.hpp"

using namespace outboxd::wire;
using namespace std::chrono_literals;
using outboxd::base::secret;
using outboxd::base::wall_time;

namespace {

const wall_time signed_at{std::chrono::sys_seconds{1614265330s}};

std::vector<verification_key> keys_of(signing_scheme scheme, std::initializer_list<const char*> texts) {
    std::vector<verification_key> out;
    for (const auto* text : texts) out.push_back(verification_key::parse(scheme, secret{text}).value());
    return out;
}

received_request standard_request(const char* signature) {
    received_request r;
    r.headers = {{"Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek"}, {"Webhook-Timestamp", "1614265330"}, {"Webhook-Signature", signature}};
    r.body = R"({"test": 2432232314})";
    return r;
}

constexpr const char* shared = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* public_key = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
constexpr const char* v1 = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
constexpr const char* v1a = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

}  // namespace

TEST_CASE("Standard Webhooks: one right signature among several is enough", "[wire][verify]") {
    struct row {
        std::string signature;
        const char* key;
        bool valid;
    };
    const row rows[] = {
        {v1, shared, true},
        {v1a, public_key, true},
        {std::string("v1,AAAA ") + v1a + " " + v1, shared, true},
        {std::string("v2,x ") + v1, shared, true},
        {v1, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", false},
        {v1a, shared, false},
        {v1, public_key, false},
        {"v1,", shared, false},
        {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE", shared, false},
        {"g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", shared, false},
        {"", shared, false},
    };
    for (const auto& r : rows) {
        CAPTURE(r.signature, r.key);
        CHECK(verify_request(signing_scheme::standard_webhooks, keys_of(signing_scheme::standard_webhooks, {r.key}), standard_request(r.signature.c_str()), signed_at,
                             300s)
                  .valid == r.valid);
    }
}

TEST_CASE("Standard Webhooks: id, time and body are all signed", "[wire][verify]") {
    const auto keys = keys_of(signing_scheme::standard_webhooks, {"C2FVsBQIhrscChlQIMV+b5sSYspob7oD", shared});
    auto r = standard_request(v1);
    CHECK(verify_request(signing_scheme::standard_webhooks, keys, r, signed_at, 300s).valid);
    for (auto& [name, value] : r.headers) {
        if (name == "Webhook-Signature") continue;
        const auto kept = value;
        value.back() = value.back() == '0' ? '1' : '0';
        CHECK_FALSE(verify_request(signing_scheme::standard_webhooks, keys, r, signed_at, 300s).valid);
        value = kept;
    }
    for (const auto* bad : {"", "x", "1614265330.5", "99999999999999999999", "-9223372036854775808"}) {
        r.headers[1].second = bad;
        CHECK_FALSE(verify_request(signing_scheme::standard_webhooks, keys, r, signed_at, 300s).valid);
    }
    r.headers.erase(r.headers.begin());
    CHECK_FALSE(verify_request(signing_scheme::standard_webhooks, keys, r, signed_at, 300s).valid);
}

TEST_CASE("a right signature of a wrong time says so", "[wire][verify]") {
    const auto keys = keys_of(signing_scheme::standard_webhooks, {shared});
    const auto old = verify_request(signing_scheme::standard_webhooks, keys, standard_request(v1), signed_at + 400s, 300s);
    CHECK_FALSE(old.valid);
    CHECK_THAT(old.text, Catch::Matchers::Contains("400 s old"));
    CHECK_THAT(verify_request(signing_scheme::standard_webhooks, keys, standard_request(v1), signed_at - 400s, 300s).text, Catch::Matchers::Contains("400 s ahead"));
}

TEST_CASE("GitHub and Stripe: documented examples verify", "[wire][verify]") {
    received_request hub;
    hub.headers = {{"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}};
    hub.body = "Hello, World!";
    const auto hub_keys = keys_of(signing_scheme::github, {"It's a Secret to Everybody"});
    CHECK(verify_request(signing_scheme::github, hub_keys, hub, signed_at, 300s).valid);
    hub.body += "!";
    CHECK_FALSE(verify_request(signing_scheme::github, hub_keys, hub, signed_at, 300s).valid);

    received_request charge;
    charge.headers = {{"Stripe-Signature", "t=1614265330,v1=00,v1=10c96c6fd3f320fcfc264cdc4f476c15060ede8e8a08404cea2ddf3b72544a9c,v0=x"}};
    charge.body = R"({"test": 2432232314})";
    const auto charge_keys = keys_of(signing_scheme::stripe, {"whsec_test_secret"});
    CHECK(verify_request(signing_scheme::stripe, charge_keys, charge, signed_at, 300s).valid);
    CHECK_FALSE(verify_request(signing_scheme::stripe, charge_keys, charge, signed_at + 301s, 300s).valid);
    charge.headers = {{"Stripe-Signature", "v1=10c96c6fd3f320fcfc264cdc4f476c15060ede8e8a08404cea2ddf3b72544a9c"}};
    CHECK_FALSE(verify_request(signing_scheme::stripe, charge_keys, charge, signed_at, 300s).valid);
}

TEST_CASE("AdCP: the compliance vector verifies with its public key", "[wire][verify]") {
    received_request r;
    r.target = "/adcp/webhook/create_media_buy/agent_123/op_abc";
    r.body =
        R"({"idempotency_key":"whk_01HW9D3H8FZP2N6R8T0V4X6Z9B","task_id":"task_456","operation_id":"op_abc","status":"completed","result":{"media_buy_id":"mb_001"}})";
    r.headers = {
        {"Host", "Buyer.Example.com"},
        {"Content-Type", "application/json"},
        {"Content-Digest", "sha-256=:dJ2koiIMZIhdGE7tidErCHV13FFvOIowCcXDiwyG54I=:"},
        {"Signature-Input",
         R"(sig1=("@method" "@target-uri" "@authority" "content-type" "content-digest");created=1776520800;expires=1776521100;nonce="KXYnfEfJ0PBRZXQyVXfVQA";keyid="test-ed25519-webhook-2026";alg="ed25519";tag="adcp/webhook-signing/v1")"},
        {"Signature", "sig1=:nqTKCpjlqf1OqZPuJyPeiF7HJ01G8KmPNSzzmad0PAJv7OUVKthI7ks_j4G-6x1H4mBpXDIISgX_iZQiYvG7Dg:"}};
    const wall_time signed_at{std::chrono::sys_seconds{1776520800s}};
    const auto keys = keys_of(signing_scheme::adcp, {"whsk_V0Z2ktvVfcWISjh4xmUlt+bSOJML9QBlzWzDkMFvgJw="});
    const auto fine = verify_request(signing_scheme::adcp, keys, r, signed_at, 300s);
    CAPTURE(fine.text);
    CHECK(fine.valid);
    CHECK_FALSE(verify_request(signing_scheme::adcp, keys, r, signed_at + 301s, 300s).valid);
    CHECK_THAT(verify_request(signing_scheme::adcp, keys, r, signed_at + 301s, 900s).text, Catch::Matchers::Contains("expired"));
    auto altered = r;
    altered.body += " ";
    CHECK_THAT(verify_request(signing_scheme::adcp, keys, altered, signed_at, 300s).text, Catch::Matchers::Contains("Content-Digest"));
    altered = r;
    altered.target += "/x";
    CHECK_FALSE(verify_request(signing_scheme::adcp, keys, altered, signed_at, 300s).valid);
    altered = r;
    altered.method = "PUT";
    CHECK_FALSE(verify_request(signing_scheme::adcp, keys, altered, signed_at, 300s).valid);
}

TEST_CASE("Signature-Input is read as a dictionary of inner lists", "[wire][verify]") {
    const auto entries = read_signature_input(R"(sig1=("@method" "date");created=5;keyid="a\"b";alg="ed25519";flag, b=();expires=9)");
    REQUIRE(entries.has_value());
    REQUIRE(entries->size() == 2);
    CHECK(entries->at(0).components == std::vector<std::string>{"@method", "date"});
    CHECK(entries->at(0).params == R"(("@method" "date");created=5;keyid="a\"b";alg="ed25519";flag)");
    CHECK(entries->at(0).created == 5);
    CHECK(entries->at(0).key_id == "a\"b");
    CHECK(entries->at(1).label == "b");
    CHECK(entries->at(1).expires == 9);
    for (const auto* bad : {"", "sig1", "sig1=", "sig1=(", "sig1=(\"a\"", "sig1=(\"a\";sf)", "sig1=(a)", "sig1=(\"a\") sig2=()", "sig1=();keyid=\"x", "=()",
                            "sig1=(\"a\"\"b\")", ",", "sig1=(),"}) {
        CAPTURE(bad);
        CHECK_FALSE(read_signature_input(bad).has_value());
    }
    CHECK(read_signature("a=:AAAA:, sig1=:Zm9v:", "sig1") == "foo");
    CHECK(read_signature("sig1=:__8:", "sig1") == "\xff\xff");
    for (const auto* bad : {"", "sig1", "sig1=:", "sig1=:Zm9v", "sig2=:Zm9v:", "sig1=:!:", "sig1=Zm9v"}) CHECK_FALSE(read_signature(bad, "sig1").has_value());
}

TEST_CASE("verification keys that are none are refused", "[wire][verify]") {
    for (const auto* bad : {"", "whpk_", "whpk_AAAA", "whpk_!", "nonsense"}) {
        CAPTURE(bad);
        CHECK_FALSE(verification_key::parse(signing_scheme::standard_webhooks, secret{bad}).has_value());
    }
    CHECK(verification_key::parse(signing_scheme::standard_webhooks, secret{public_key}).value().is_ed25519());
    CHECK_FALSE(verify_request(signing_scheme::none, {}, {}, signed_at, 0s).valid);
}
