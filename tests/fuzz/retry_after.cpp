// Fuzzes Retry-After, durations and timestamps: every accepted value is sane and reads back.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/time.hpp"
#include "wire/response_policy.hpp"

using namespace outboxd;

static void require(bool holds) {
    if (!holds) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace std::chrono_literals;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const base::wall_time now{std::chrono::sys_seconds{1'796'065'427s}};
    if (const auto wait = wire::parse_retry_after(text, now)) require(*wait >= 0ms && *wait <= 24h);
    if (const auto duration = base::parse_duration(text)) require(base::parse_duration(base::format_duration(*duration)).value() == *duration);
    if (const auto time = base::parse_rfc3339(text)) {
        const auto again = base::parse_rfc3339(base::format_rfc3339(*time));
        require(*time >= base::wall_time{std::chrono::sys_days{std::chrono::year{0} / 1 / 2}} &&
                        *time < base::wall_time{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}}
                    ? again && *again == std::chrono::floor<std::chrono::milliseconds>(*time)
                    : true);
    }
    (void)wire::judge(wire::default_response_rules(), {302, text, text, text}, now);
    return 0;
}
