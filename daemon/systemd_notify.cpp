#include "systemd_notify.hpp"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace outboxd::daemon {

namespace {

std::string line_of(std::string_view text) {
    std::string result(text.substr(0, 300));
    std::replace(result.begin(), result.end(), '\n', ' ');
    return result;
}

std::string monotonic_usec() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::to_string(static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000);
}

}  // namespace

systemd_notify::systemd_notify() {
    std::uint64_t usec = 0;
    if (sd_watchdog_enabled(0, &usec) > 0 && usec > 0) {
        const auto half = std::chrono::milliseconds{static_cast<std::int64_t>(usec / 2000)};
        interval_ = std::clamp(half, std::chrono::milliseconds{10}, std::chrono::milliseconds{1000});
    }
}

void systemd_notify::ready(std::string_view status) { sd_notify(0, ("READY=1\nSTATUS=" + line_of(status)).c_str()); }
void systemd_notify::status(std::string_view text) { sd_notify(0, ("STATUS=" + line_of(text)).c_str()); }
void systemd_notify::reloading() { sd_notify(0, ("RELOADING=1\nMONOTONIC_USEC=" + monotonic_usec()).c_str()); }
void systemd_notify::stopping() { sd_notify(0, "STOPPING=1\nSTATUS=stopping: finishing what is on the wire"); }
void systemd_notify::feed_watchdog() { sd_notify(0, "WATCHDOG=1"); }

}  // namespace outboxd::daemon
