#include "app.hpp"

#include <iostream>

#include "commands/command.hpp"
#include "commands/context.hpp"
#include "process.hpp"
#include "settings.hpp"
#include "telemetry/log.hpp"

namespace outboxd::daemon {

namespace {

// Prints every problem; nullopt when one of them is no warning.
std::shared_ptr<const config::config> read_settings(const std::string& path, const std::optional<std::string>& database_flag) {
    auto loaded = load_settings(path, database_flag);
    print_problems(loaded.problems);
    if (!loaded.value) return nullptr;
    return std::make_shared<const config::config>(std::move(*loaded.value));
}

void print_tally(const relay::drain_tally& tally, const postgres::drain_remainder& left, bool json) {
    if (json) {
        std::cout << "{\"published\":" << tally.published << ",\"retried\":" << tally.retried << ",\"failed\":" << tally.failed << ",\"remaining\":" << left.remaining
                  << ",\"scheduled\":" << left.scheduled << "}\n";
    } else {
        std::cout << "published " << tally.published << ", retried " << tally.retried << ", failed " << tally.failed << ", remaining " << left.remaining << ", scheduled " << left.scheduled
                  << '\n';
    }
}

}  // namespace

int run_relay(run_options options) {
    auto settings = read_settings(options.config_path, options.database_flag);
    if (!settings) return exit_bad_config;
    telemetry::init_log(settings->log.level, settings->log.format);
    try {
        process p(std::move(settings), [options] {
            auto loaded = load_settings(options.config_path, options.database_flag);
            for (const auto& problem : loaded.problems) {
                telemetry::log(problem.warning ? telemetry::level::warn : telemetry::level::error, "reload_problem", problem.to_string());
            }
            return loaded.value ? std::make_shared<const config::config>(std::move(*loaded.value)) : std::shared_ptr<const config::config>{};
        });
        return p.run() ? exit_done : exit_failed;
    } catch (const base::failure& f) {
        telemetry::log(telemetry::level::error, "start_failed", f.why().text);
        telemetry::flush_log();
        return f.why().code == base::errc::bad_config ? exit_bad_config : exit_failed;
    }
}

int run_drain(drain_options options) {
    auto settings = read_settings(options.config_path, options.database_flag);
    if (!settings) return exit_bad_config;
    telemetry::init_log(settings->log.level, settings->log.format);
    try {
        process p(std::move(settings), {});
        const auto result = p.drain(options.max_passes, options.timeout);
        if (!result.tally.database_answered || !result.left) {
            std::cerr << "error: " << result.reason << '\n';
            return result.schema_fault ? exit_failed : exit_unreachable;
        }
        print_tally(result.tally, *result.left, options.json);
        return result.left->remaining > 0 || result.tally.failed > 0 ? exit_remains : exit_done;
    } catch (const base::failure& f) {
        std::cerr << "error: " << f.why().text << '\n';
        return f.why().code == base::errc::bad_config ? exit_bad_config : exit_failed;
    }
}

}  // namespace outboxd::daemon
