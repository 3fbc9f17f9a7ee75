// Who the receiver is: certificates, names, versions, sessions, pins. Case B39.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <atomic>

#include "base/encoding.hpp"
#include "integration/https_bench.hpp"

using namespace outboxd;
using namespace outboxd::testkit;

namespace {

// The pin by other means than the code under test: PEM -> public key -> DER -> SHA-256.
std::string pin_of(const certificate& identity) {
    BIO* bio = BIO_new_mem_buf(identity.certificate_pem.data(), static_cast<int>(identity.certificate_pem.size()));
    X509* parsed = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    unsigned char* der = nullptr;
    const int size = i2d_PUBKEY(X509_get0_pubkey(parsed), &der);
    unsigned char digest[32];
    unsigned int length = 0;
    EVP_Digest(der, static_cast<std::size_t>(size), digest, &length, EVP_sha256(), nullptr);
    OPENSSL_free(der);
    X509_free(parsed);
    BIO_free(bio);
    return base::base64_encode(std::string_view(reinterpret_cast<char*>(digest), length));
}

struct material {
    certificate_authority root;
    temporary_directory files;
    ports::tls_profile profile() const {
        ports::tls_profile made;
        made.ca_file = (files.path() / "ca.pem").string();
        return made;
    }
    material() { files.write("ca.pem", root.certificate_pem()); }
};

raw_receiver_options with(certificate identity) {
    raw_receiver_options options;
    options.tls = std::move(identity);
    return options;
}

}  // namespace

TEST_CASE("only the right certificate gets a request, each wrong one its own sentence (B39)") {
    const material m;
    const auto below = m.root.intermediate();
    certificate no_intermediate = below.for_localhost();
    no_intermediate.certificate_pem.resize(no_intermediate.certificate_pem.find("-----END CERTIFICATE-----") + 26);
    certificate_request wild;
    wild.common_name = "wild";
    wild.dns_names = {"*.localhost"};
    certificate_request name_only;
    name_only.dns_names = {"localhost"};
    const certificate_authority stranger("stranger root");
    struct row {
        const char* name;
        certificate identity;
        const char* host;
        const char* text;  // empty: accepted
    };
    const std::vector<row> rows = {
        {"good", m.root.for_localhost(), "localhost", ""},
        {"through an intermediate", below.for_localhost(), "localhost", ""},
        {"address in the SAN", m.root.for_localhost(), "127.0.0.1", ""},
        {"wrong name", m.root.wrong_name(), "localhost", "is valid for other.example.test, not for localhost"},
        {"name SAN for an address", m.root.issue(name_only), "127.0.0.1", "is valid for localhost, not for 127.0.0.1"},
        {"common name only", m.root.common_name_only(), "localhost", "has no subject alternative name"},
        {"wildcard below", m.root.issue(wild), "localhost", "is valid for *.localhost, not for localhost"},
        {"expired", m.root.expired(), "localhost", "expired on 20"},
        {"not yet valid", m.root.not_yet_valid(), "localhost", "is not valid before 20"},
        {"self-signed", self_signed({}), "localhost", "is self-signed and not trusted"},
        {"unknown authority", stranger.for_localhost(), "localhost", "was issued by \"CN=stranger root\", which is not trusted"},
        {"intermediate missing", no_intermediate, "localhost", "does not send its intermediate certificate"},
        {"client only", m.root.client_only(), "localhost", "may not be used by a server"},
    };
    for (const row& one : rows) {
        std::atomic<bool> request_seen{false};
        raw_receiver receiver(
            [&](raw_connection& c) {
                while (c.read_request()) {
                    request_seen = true;
                    c.answer(200);
                }
            },
            with(one.identity));
        https_bench bench;
        const auto reply = bench.send(https_bench::route("https://" + std::string(one.host) + ":" + std::to_string(receiver.port()) + "/", m.profile()));
        INFO(one.name << ": " << reply.error);
        if (std::string_view(one.text).empty()) {
            CHECK(reply.status == 200);
            CHECK(reply.phases.tls >= 0);
            continue;
        }
        CHECK_FALSE(reply.complete);
        CHECK(reply.error_class == error_class::tls);
        CHECK_FALSE(reply.own_fault);
        CHECK_THAT(reply.error, Catch::Matchers::StartsWith("TLS with " + std::string(one.host)));
        CHECK_THAT(reply.error, Catch::Matchers::Contains(one.text));
        receiver.stop();
        CHECK_FALSE(request_seen);
    }
}

TEST_CASE("a receiver with old versions only, or without TLS, is told apart (B39)") {
    const material m;
    {
        auto options = with(m.root.for_localhost());
        options.max_tls_version = "1.1";
        raw_receiver receiver(answer_always(200), options);
        https_bench bench;
        const auto reply = bench.send(https_bench::route(receiver.url(), m.profile()));
        CHECK(reply.error_class == error_class::tls);
        CHECK_THAT(reply.error, Catch::Matchers::Contains("no TLS version in common"));
    }
    {
        auto options = with(m.root.for_localhost());
        options.max_tls_version = "1.2";
        raw_receiver receiver(answer_always(200), options);
        https_bench bench;
        CHECK(bench.send(https_bench::route(receiver.url(), m.profile())).status == 200);
        auto strict = m.profile();
        strict.min_version = "1.3";
        const auto reply = bench.send(https_bench::route(receiver.url(), strict));
        CHECK(reply.error_class == error_class::tls);
        CHECK_THAT(reply.error, Catch::Matchers::Contains("no TLS version in common"));
    }
    {
        raw_receiver receiver([](raw_connection& c) {
            c.read_some();
            c.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        });
        https_bench bench;
        const auto reply = bench.send(https_bench::route("https://localhost:" + std::to_string(receiver.port()) + "/", m.profile()));
        CHECK(reply.error_class == error_class::tls);
        CHECK_THAT(reply.error, Catch::Matchers::Contains("does not speak TLS"));
    }
    {
        raw_receiver receiver([](raw_connection& c) { c.read_some(1); });
        https_bench bench;
        const auto reply = bench.send(https_bench::route("https://localhost:" + std::to_string(receiver.port()) + "/", m.profile()));
        CHECK(reply.error_class == error_class::tls);
        CHECK_THAT(reply.error, Catch::Matchers::Contains("during the TLS handshake"));
    }
}

TEST_CASE("the name goes into SNI, an address does not (B39)") {
    const material m;
    std::vector<std::string> seen;
    std::mutex guard;
    raw_receiver receiver(
        [&](raw_connection& c) {
            {
                const std::lock_guard lock(guard);
                seen.push_back(c.server_name());
            }
            while (c.read_request()) c.answer(200);
        },
        with(m.root.for_localhost()));
    https_bench bench;
    CHECK(bench.send(https_bench::route(receiver.url(), m.profile())).status == 200);
    CHECK(bench.send(https_bench::route("https://127.0.0.1:" + std::to_string(receiver.port()) + "/", m.profile())).status == 200);
    CHECK(seen == std::vector<std::string>{"localhost", ""});
}

TEST_CASE("two hosts behind one port each show their own certificate (B39)") {
    const material m;
    certificate_request second;
    second.dns_names = {"b.example.test"};
    auto options = with(m.root.for_localhost());
    options.by_server_name = {{"b.example.test", m.root.issue(second)}};
    raw_receiver receiver(answer_always(200), options);
    auto mine = open_options();
    mine.look_up = [](const std::string&) { return https::host_addresses{{*wire::parse_ip("127.0.0.1")}, ""}; };
    https_bench bench(mine);
    const std::string port = std::to_string(receiver.port());
    CHECK(bench.send(https_bench::route("https://localhost:" + port + "/", m.profile())).status == 200);
    CHECK(bench.send(https_bench::route("https://b.example.test:" + port + "/", m.profile())).status == 200);
    const auto wrong = bench.send(https_bench::route("https://c.example.test:" + port + "/", m.profile()));
    CHECK_THAT(wrong.error, Catch::Matchers::Contains("not for c.example.test"));
}

TEST_CASE("verification can be turned off for one profile, and only for that one") {
    const material m;
    raw_receiver receiver(answer_always(200), with(m.root.wrong_name()));
    https_bench bench;
    auto off = m.profile();
    off.verify = false;
    CHECK(bench.send(https_bench::route(receiver.url(), off)).status == 200);
    // Neither its connection nor its session may serve the profile that verifies.
    CHECK(bench.send(https_bench::route(receiver.url(), m.profile())).error_class == error_class::tls);
}

TEST_CASE("a pinned key must match, whatever else is right") {
    const material m;
    const certificate identity = m.root.for_localhost();
    raw_receiver receiver(answer_always(200), with(identity));
    https_bench bench;
    auto pinned = m.profile();
    pinned.pinned_spki = pin_of(identity);
    CHECK(bench.send(https_bench::route(receiver.url(), pinned)).status == 200);
    for (const bool verify : {true, false}) {
        auto other = m.profile();
        other.verify = verify;
        other.pinned_spki = pin_of(m.root.for_localhost());
        const auto reply = bench.send(https_bench::route(receiver.url(), other));
        CHECK(reply.error_class == error_class::tls);
        CHECK_THAT(reply.error, Catch::Matchers::Contains("another public key"));
    }
    CHECK(receiver.requests().size() == 1);
}

TEST_CASE("a client certificate is shown where one is demanded") {
    const material m;
    const certificate_authority clients("client root");
    certificate_request request;
    request.common_name = "relay";
    request.client_auth = true;
    const certificate mine = clients.issue(request);
    m.files.write("client.pem", mine.certificate_pem);
    m.files.write("client.key", mine.key_pem);
    auto options = with(m.root.for_localhost());
    options.client_ca_pem = clients.certificate_pem();
    for (const char* version : {"", "1.2"}) {
        options.max_tls_version = version;
        raw_receiver receiver(answer_always(200), options);
        https_bench bench;
        const auto without = bench.send(https_bench::route(receiver.url(), m.profile()));
        INFO(version << " " << without.error);
        CHECK(without.error_class == error_class::tls);
        CHECK_THAT(without.error, Catch::Matchers::Contains("certificate") || Catch::Matchers::Contains("handshake failure"));
        auto profile = m.profile();
        profile.client_cert = (m.files.path() / "client.pem").string();
        profile.client_key = (m.files.path() / "client.key").string();
        const auto reply = bench.send(https_bench::route(receiver.url(), profile));
        INFO(reply.error);
        CHECK(reply.status == 200);
    }
}

TEST_CASE("unusable files are our own fault, name key and file, and are read again later") {
    const material m;
    raw_receiver receiver(answer_always(200), with(m.root.for_localhost()));
    https_bench bench;
    ports::tls_profile missing;
    missing.ca_file = (m.files.path() / "none.pem").string();
    const auto reply = bench.send(https_bench::route(receiver.url(), missing));
    CHECK(reply.error_class == error_class::local);
    CHECK(reply.own_fault);
    CHECK_THAT(reply.error, Catch::Matchers::Contains("tls.ca_file") && Catch::Matchers::Contains("none.pem"));
    m.files.write("none.pem", m.root.certificate_pem());
    bench.sender->reload();
    CHECK(bench.send(https_bench::route(receiver.url(), missing)).status == 200);

    ports::tls_profile half = m.profile();
    half.client_cert = (m.files.path() / "ca.pem").string();  // has no key
    CHECK(bench.send(https_bench::route(receiver.url(), half)).own_fault);
}

TEST_CASE("sessions are resumed on the same route and on no other (B39)") {
    const material m;
    for (const char* version : {"", "1.2"}) {
        std::vector<bool> resumed;
        std::mutex guard;
        auto options = with(m.root.for_localhost());
        options.max_tls_version = version;
        raw_receiver receiver(
            [&](raw_connection& c) {
                {
                    const std::lock_guard lock(guard);
                    resumed.push_back(c.session_resumed());
                }
                c.read_request();
                c.answer(200, "", "Connection: close\r\n");
            },
            options);
        https_bench bench;
        const auto route = https_bench::route(receiver.url(), m.profile());
        auto other = m.profile();
        other.min_version = "1.2";
        other.verify = false;
        CHECK(bench.send(route).status == 200);
        CHECK(bench.send(route).status == 200);
        CHECK(bench.send(https_bench::route(receiver.url(), other)).status == 200);
        CHECK(bench.send(https_bench::route("https://127.0.0.1:" + std::to_string(receiver.port()) + "/", m.profile())).status == 200);
        bench.sender->reload();
        CHECK(bench.send(route).status == 200);
        INFO("version " << version);
        CHECK(resumed == std::vector<bool>{false, true, false, false, false});
    }
}

TEST_CASE("a session does not hide a certificate that has changed for the worse (B39)") {
    const material m;
    https_bench bench;
    int port = 0;
    {
        raw_receiver receiver(
            [](raw_connection& c) {
                c.read_request();
                c.answer(200, "", "Connection: close\r\n");
            },
            with(m.root.for_localhost()));
        port = receiver.port();
        CHECK(bench.send(https_bench::route(receiver.url(), m.profile())).status == 200);
    }
    auto options = with(m.root.wrong_name());
    options.port = port;
    raw_receiver changed(answer_always(200), options);
    const auto reply = bench.send(https_bench::route(changed.url(), m.profile()));
    CHECK(reply.error_class == error_class::tls);
    CHECK(changed.requests().empty());
}
