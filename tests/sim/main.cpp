// Role: the simulation's program: runs seeds, or the list of mutations, and prints what it found. Ends with `N passed, N failed`.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "telemetry/log.hpp"
#include "world.hpp"

namespace {

using namespace outboxd;
using real_clock = std::chrono::steady_clock;

struct options {
    std::uint64_t seed{0};
    int part{0};            // of `parts` processes that share the work
    int parts{1};
    int seeds{0};           // 0: as many as the time allows
    double seconds{20};
    int hours{2};
    std::int64_t trace{0};
    bool mutations{false};
    std::string only;
};

int passed = 0;
int failed = 0;

// Every third seed moves the server's clock, under which some promises about moments cannot hold and are not asked for.
bool jumps(std::uint64_t seed) { return seed % 3 == 0; }

sim::world_result play(std::uint64_t seed, int hours, bool clock_jumps, const sim::mutation* broken, std::int64_t trace = 0) {
    sim::world world({seed, std::chrono::hours{hours}, clock_jumps, broken, true, trace});
    return world.run();
}

void run_seeds(const options& o) {
    const auto begun = real_clock::now();
    const auto spent = [&] { return std::chrono::duration<double>(real_clock::now() - begun).count(); };
    double simulated = 0;
    int n = 0;
    for (std::uint64_t seed = o.seed + static_cast<std::uint64_t>(o.part); o.seeds > 0 ? n < o.seeds : (n == 0 || spent() < o.seconds); seed += static_cast<std::uint64_t>(o.parts), ++n) {
        const auto r = play(seed, o.hours, jumps(seed), nullptr, o.trace);
        simulated += o.hours;
        ++(r.report.empty() ? passed : failed);
        std::printf("%s seed %llu: %d h, %lld events, %lld requests, %lld deliveries ended, %lld sent again after a success, %lld crashes, %lld claims rescued\n", r.report.empty() ? "ok" : "not ok",
                    static_cast<unsigned long long>(seed), o.hours, static_cast<long long>(r.events), static_cast<long long>(r.sends), static_cast<long long>(r.ended),
                    static_cast<long long>(r.duplicates), static_cast<long long>(r.crashes), static_cast<long long>(r.lost_claims));
        if (!r.report.empty()) std::printf("%sagain: tests/sim/run.sh --seed %llu\n", r.report.c_str(), static_cast<unsigned long long>(seed));
        std::fflush(stdout);
    }
    std::printf("%.0f simulated hours in %.1f s, %.0f a minute\n", simulated, spent(), simulated / spent() * 60.0);
}

// A seed tells everything: played twice it gives the same run.
void run_twice(std::uint64_t seed) {
    const auto one = play(seed, 1, true, nullptr);
    const auto two = play(seed, 1, true, nullptr);
    const bool same = one.report == two.report && one.events == two.events && one.sends == two.sends && one.ended == two.ended && one.steps == two.steps;
    ++(same ? passed : failed);
    std::printf("%s seed %llu played twice gives the same run\n", same ? "ok" : "not ok", static_cast<unsigned long long>(seed));
}

// Each mutation must be found; which seed finds it is told.
void run_mutations(const options& o) {
    constexpr int most_seeds = 12;
    int at = 0;
    for (const auto& m : sim::mutations()) {
        if (at++ % o.parts != o.part) continue;
        if (!o.only.empty() && m.name.find(o.only) == std::string::npos) continue;
        std::string found;
        std::uint64_t seed = o.seed;
        int n = 0;
        for (; n < most_seeds && found.empty(); ++n, ++seed) found = play(seed, 2, m.clock_jumps, &m).report;
        ++(found.empty() ? failed : passed);
        if (found.empty()) {
            std::printf("not ok mutation `%s` was not found in %d seeds from %llu\n", m.name.c_str(), n, static_cast<unsigned long long>(o.seed));
        } else {
            std::printf("ok mutation `%s` found by seed %llu: %s\n", m.name.c_str(), static_cast<unsigned long long>(seed - 1), found.substr(0, found.find('\n')).c_str());
        }
        std::fflush(stdout);
    }
}

bool read(int argc, char** argv, options& o) {
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
        if (name == "--seed") o.seed = std::strtoull(value(), nullptr, 10);
        else if (name == "--seeds") o.seeds = std::atoi(value());
        else if (name == "--parts") o.parts = std::max(1, std::atoi(value()));
        else if (name == "--trace") o.trace = std::atoll(value());
        else if (name == "--part") o.part = std::atoi(value());
        else if (name == "--seconds") o.seconds = std::atof(value());
        else if (name == "--hours") o.hours = std::max(1, std::atoi(value()));
        else if (name == "--mutations") o.mutations = true;
        else if (name == "--only") o.only = value();
        else if (name == "--log") telemetry::init_log(value(), "text");
        else return false;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    telemetry::init_log("off", "text");
    options o;
    if (!read(argc, argv, o)) {
        std::fprintf(stderr, "usage: simulation [--seed N] [--seeds N | --seconds S] [--part K --parts N] [--hours H] [--mutations [--only WORDS]] [--trace EVENT] [--log LEVEL]\n");
        return 2;
    }
    if (o.seed == 0 && !o.mutations) o.seed = std::random_device{}() % 1'000'000U + 1;
    if (o.seed == 0) o.seed = 1;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::printf("seed %llu\n", static_cast<unsigned long long>(o.seed));
    if (o.mutations && o.part == 0) run_twice(o.seed);
    if (o.mutations) run_mutations(o);
    if (!o.mutations || o.seeds > 0) run_seeds(o);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
