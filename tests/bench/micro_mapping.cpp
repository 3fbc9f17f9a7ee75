// What the values cost on their way between the relay and PostgreSQL on this machine, without a server: the rows of a claim into values, settlements into
// parameters. Prints one line per case, nanoseconds per event (best and median of the rounds).
#include <libpq-fe.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "postgres/row_mapping.hpp"

namespace {

using namespace outboxd;
using stopwatch = std::chrono::steady_clock;

constexpr int rounds = 15;
constexpr int repeats = 40;
constexpr int batch = 256;

std::string big_endian(std::uint64_t value, std::size_t bytes) {
    std::string out(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(value >> (8 * (bytes - 1 - i)) & 0xff);
    return out;
}

// A claim's reply as the server sends it: binary, the report first, then one row per event of 1 KB.
postgres::query_result claim_reply() {
    static constexpr std::array<std::pair<const char*, Oid>, 26> columns{
        {{"id", 20},         {"event", 20},        {"endpoint", 25},      {"lane", 25},         {"ordering_key", 25}, {"attempts", 23}, {"rescued", 23},
         {"due_at", 1184},   {"expires_at", 1184}, {"size", 23},          {"format", 25},       {"max_attempts", 21}, {"report", 3802}, {"event_id", 25},
         {"event_type", 25}, {"payload", 114},     {"payload_bytes", 17}, {"content_type", 25}, {"tenant_id", 25},    {"url", 25},      {"headers", 25},
         {"subject", 25},    {"source", 25},       {"traceparent", 25},   {"tracestate", 25},   {"created_at", 1184}}};
    PGresult* made = PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK);
    std::vector<PGresAttDesc> described;
    for (const auto& [name, type] : columns) described.push_back({const_cast<char*>(name), 0, 0, 1, type, -1, -1});
    if (PQsetResultAttrs(made, static_cast<int>(described.size()), described.data()) == 0) std::abort();
    int row = 0;
    const auto set = [&](std::string_view column, std::string value) {
        const auto at = std::find_if(columns.begin(), columns.end(), [&](const auto& c) { return c.first == column; }) - columns.begin();
        if (PQsetvalue(made, row, static_cast<int>(at), value.data(), static_cast<int>(value.size())) == 0) std::abort();
    };
    const auto nulls = [&] {
        for (int c = 0; c < static_cast<int>(columns.size()); ++c) PQsetvalue(made, row, c, nullptr, -1);
    };
    nulls();
    set("report", std::string{"\x01"} +
                      R"({"now": 1796065427.5, "xmin": 1000, "xmax": 1001, "cursor": null, "wrapped": true, "more": false, "keys": {"billing": null}})");
    const std::string body = "{\"order_id\":1042,\"note\":\"" + std::string(1024 - 27, 'x') + "\"}";
    for (row = 1; row <= batch; ++row) {
        const auto number = static_cast<std::uint64_t>(row);
        nulls();
        set("id", big_endian(number, 8));
        set("event", big_endian(number, 8));
        set("endpoint", "billing");
        set("lane", "billing");
        set("attempts", big_endian(0, 4));
        set("rescued", big_endian(0, 4));
        set("due_at", big_endian(849'380'627'000'000ULL + number, 8));
        set("size", big_endian(body.size(), 4));
        set("event_id", "0b2d6a9e-1f0a-4b57-8a43-0d4f6f9e6a11");
        set("event_type", "order.created");
        set("payload", body);
        set("created_at", big_endian(849'380'627'000'000ULL, 8));
    }
    return postgres::query_result{postgres::result_ptr{made}};
}

std::vector<lifecycle::settlement> settlements(bool failed) {
    std::vector<lifecycle::settlement> out;
    for (int i = 0; i < batch; ++i) {
        lifecycle::settlement s;
        s.delivery = 1'000'000 + i;
        s.outcome = failed ? lifecycle::outcome::retried : lifecycle::outcome::published;
        s.http_status = failed ? 503 : 200;
        s.duration_ms = 3;
        s.started = base::boot_clock::now();
        s.phases.first_byte = 2;
        if (failed) {
            s.error = "503 Service Unavailable";
            s.response_excerpt = std::string(256, 'e');
            s.retry_in = base::milliseconds{5000};
        }
        out.push_back(std::move(s));
    }
    return out;
}

template <typename Work>
void run(const char* name, Work work) {
    std::vector<double> took;
    for (int round = 0; round < rounds; ++round) {
        const auto start = stopwatch::now();
        for (int i = 0; i < repeats; ++i) work();
        took.push_back(std::chrono::duration<double, std::nano>(stopwatch::now() - start).count() / (repeats * batch));
    }
    std::sort(took.begin(), took.end());
    std::printf("%-48s best %8.0f ns  median %8.0f ns\n", name, took.front(), took[rounds / 2]);
}

}  // namespace

int main() {
    // A relay at work has other things on its heap, so that pages do not go back to the kernel after each batch; here they would, and come back as page faults.
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
    const auto reply = claim_reply();
    const auto read = postgres::read_claim(reply);
    if (!read || read->rows.size() != batch || read->rows.front().event.body.size() < 1000) {
        std::fprintf(stderr, "the made-up reply does not read as a claim\n");
        return 1;
    }
    run("row mapping, claim of 256, 1 KB", [&] {
        const auto rows = postgres::read_claim(reply);
        if (!rows || rows->rows.size() != batch) std::abort();
    });
    for (const bool failed : {false, true}) {
        const auto done = settlements(failed);
        run(failed ? "settle encoding, 256 retried with excerpt" : "settle encoding, 256 published", [&] {
            const auto p = postgres::settle_params(1, done, base::boot_clock::now());
            if (p.wire().values.empty()) std::abort();
        });
    }
}
