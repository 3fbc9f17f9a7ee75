// What building and signing one request costs on this machine: the pure part of the hot path. Prints one line per case, nanoseconds per operation (best and
// median of the rounds).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "wire/request.hpp"
#include "wire/signature/sign.hpp"

namespace {

std::size_t allocations = 0;

}  // namespace

// Counted, because the common case promises none beyond the output buffer.
void* operator new(std::size_t size) {
    ++allocations;
    if (void* room = std::malloc(size)) return room;
    throw std::bad_alloc{};
}
void operator delete(void* room) noexcept {
    std::free(room);
}
void operator delete(void* room, std::size_t) noexcept {
    std::free(room);
}

namespace {

using namespace outboxd;
using namespace outboxd::wire;
using stopwatch = std::chrono::steady_clock;

constexpr int rounds = 15;
constexpr int per_round = 5'000;

struct bench_case {
    const char* name;
    body_format format;
    signing_scheme scheme;
    std::string secret;
};

event an_event() {
    event e;
    e.id = 123'456'789;
    e.event_id = "0b2d6a9e-1f0a-4b57-8a43-0d4f6f9e6a11";
    e.event_type = "order.created";
    e.body = "{\"order_id\":1042,\"note\":\"" + std::string(1024 - 27, 'x') + "\"}";
    return e;
}

void run(const bench_case& c) {
    request_profile profile;
    profile.format = c.format;
    if (!c.secret.empty()) profile.signer = {c.scheme, {make_signing_key(c.scheme, base::secret{c.secret}).value()}};
    const request_builder builder(parse_url("https://billing.example.com/hooks/v1").value(), std::move(profile), "outboxd/0.1.0");
    const auto e = an_event();
    request out;
    const auto now = base::wall_time{std::chrono::sys_seconds{std::chrono::seconds{1'796'065'427}}};
    std::vector<double> figures;
    std::size_t allocated = 0;
    for (int round = 0; round < rounds; ++round) {
        const auto before = allocations;
        const auto start = stopwatch::now();
        for (int i = 0; i < per_round; ++i) {
            if (builder.build(e, 1, {}, now, "sixteen bytes!!!", out)) std::abort();
        }
        figures.push_back(std::chrono::duration<double, std::nano>(stopwatch::now() - start).count() / per_round);
        allocated = allocations - before;  // the last round's: the buffers are grown by then
    }
    std::sort(figures.begin(), figures.end());
    std::printf("%-48s best %8.0f ns  median %8.0f ns  allocations %.2f\n", c.name, figures.front(), figures[rounds / 2],
                static_cast<double>(allocated) / per_round);
}

// The signature alone, over the body of the cases above.
void run_signature(const char* name, signing_scheme scheme, const std::string& secret) {
    const signer with{scheme, {make_signing_key(scheme, base::secret{secret}).value()}};
    const auto e = an_event();
    const signature_input in{"POST",     "https",      "billing.example.com", "/hooks/v1", "application/json",
                             e.event_id, "1796065427", 1'796'065'427,         e.body,      "sixteen bytes!!!"};
    std::string out;
    std::vector<double> figures;
    for (int round = 0; round < rounds; ++round) {
        const auto start = stopwatch::now();
        for (int i = 0; i < per_round; ++i) {
            out.clear();
            if (!append_signature_fields(out, with, in)) std::abort();
        }
        figures.push_back(std::chrono::duration<double, std::nano>(stopwatch::now() - start).count() / per_round);
    }
    std::sort(figures.begin(), figures.end());
    std::printf("%-48s best %8.0f ns  median %8.0f ns\n", name, figures.front(), figures[rounds / 2]);
}

}  // namespace

int main() {
    const std::string shared = generate_whsec();
    const std::string pair = generate_whsk();
    const bench_case cases[] = {
        {"raw, unsigned, 1 KB", body_format::raw, signing_scheme::none, ""},
        {"raw, standard-webhooks HMAC, 1 KB", body_format::raw, signing_scheme::standard_webhooks, shared},
        {"raw, standard-webhooks ed25519, 1 KB", body_format::raw, signing_scheme::standard_webhooks, pair},
        {"enriched, standard-webhooks HMAC, 1 KB", body_format::enriched, signing_scheme::standard_webhooks, shared},
        {"cloudevents-binary, standard-webhooks HMAC, 1 KB", body_format::cloudevents_binary, signing_scheme::standard_webhooks, shared},
        {"raw, rfc9421 HMAC, 1 KB", body_format::raw, signing_scheme::rfc9421, shared},
        {"raw, github, 1 KB", body_format::raw, signing_scheme::github, "plain text secret"},
        {"raw, stripe, 1 KB", body_format::raw, signing_scheme::stripe, shared},
    };
    for (const auto& c : cases) run(c);
    run_signature("signature alone, standard-webhooks HMAC, 1 KB", signing_scheme::standard_webhooks, shared);
    run_signature("signature alone, standard-webhooks ed25519, 1 KB", signing_scheme::standard_webhooks, pair);
}
