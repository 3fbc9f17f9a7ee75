// The relay process: builds the parts in floor order, runs them, tears them down in reverse. Floor 5: the only place that knows everything.
#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"

namespace outboxd::daemon {

// config_path empty: no file, every key has its default (the database comes from the flag or the environment).
struct run_options {
    std::string config_path;
    std::optional<std::string> database_flag;
};
// Runs until a signal; returns the exit code.
int run_relay(run_options options);

struct drain_options {
    std::string config_path;
    std::optional<std::string> database_flag;
    int max_passes{0};              // 0: as many as it takes
    base::milliseconds timeout{0};  // 0: none
    bool json{false};
};
// Delivers all that is due and returns the exit code: 0, or 3 when something remains or failed.
int run_drain(drain_options options);

}  // namespace outboxd::daemon
