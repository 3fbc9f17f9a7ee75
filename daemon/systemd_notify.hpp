// What systemd is told: READY, STATUS, STOPPING, RELOADING, and the watchdog's food. Floor 5; sd_notify(3). Without NOTIFY_SOCKET every call does nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace outboxd::daemon {

// outboxd starts no child, so the notify variables need not be taken out of the environment.
class systemd_notify {
public:
    systemd_notify();
    void ready(std::string_view status);
    void status(std::string_view text);
    void reloading();
    void stopping();
    void feed_watchdog();
    // Half of WATCHDOG_USEC at most, and at most a second; nullopt: no watchdog.
    [[nodiscard]] std::optional<std::chrono::milliseconds> watchdog_interval() const noexcept { return interval_; }

private:
    std::optional<std::chrono::milliseconds> interval_;
};

}  // namespace outboxd::daemon
