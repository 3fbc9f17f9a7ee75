// One command as data: name, flags, help and the function that runs it. Floor 5; the parser library stays in cli.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"

namespace outboxd::daemon {

// Contract section 3. EX_UNAVAILABLE and EX_CONFIG of sysexits.h where a supervisor must tell them apart.
enum exit_code : int { exit_done = 0, exit_failed = 1, exit_usage = 2, exit_remains = 3, exit_unreachable = 69, exit_bad_config = 78 };

struct flag {
    std::string name;   // with dashes: --since
    std::string value;  // what stands for its value in the help; empty: a switch without value
    std::string help;
    bool repeatable{false};
};

struct operand {
    std::string name;
    std::string help;
    int min{1};
    int max{1};  // -1: any number
};

// What the user typed, after the parser accepted it.
class arguments {
public:
    [[nodiscard]] bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
    [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
    [[nodiscard]] std::vector<std::string> all(std::string_view name) const;
    // Error of all typed readers: usage_error naming the flag and the accepted form.
    [[nodiscard]] std::int64_t number(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) const;
    [[nodiscard]] base::milliseconds duration(std::string_view name, base::milliseconds otherwise) const;
    // RFC 3339, a plain date (UTC midnight), or a duration that means "so long ago" by the caller's clock.
    [[nodiscard]] std::optional<base::wall_time> moment(std::string_view name) const;
    // `100/s`, `30/m`, `5/h`: events per second.
    [[nodiscard]] std::optional<double> rate(std::string_view name) const;
    [[nodiscard]] bool json() const { return has("--json"); }

    std::vector<std::string> operands;
    std::string command;  // for error texts: `endpoint add`
    void put(const std::string& name, std::vector<std::string> values) { values_[name] = std::move(values); }

private:
    std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// The user typed something we do not accept: exit code 2, with the sentence and the way to the help.
class usage_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

struct command {
    std::string name;  // one or two words: `endpoint add`
    std::string summary;
    std::string about;  // more sentences for its own help
    std::vector<operand> operands;
    std::vector<flag> flags;
    std::vector<std::string> examples;  // whole lines
    int (*run)(const arguments&);
    bool database{true};  // takes --config and --database
    bool prints{true};    // takes --json
};

// One function per file of the folder; the order here is the order of the help.
[[nodiscard]] std::vector<command> run_commands();
[[nodiscard]] std::vector<command> migrate_commands();
[[nodiscard]] std::vector<command> check_commands();
[[nodiscard]] std::vector<command> status_commands();
[[nodiscard]] std::vector<command> why_commands();
[[nodiscard]] std::vector<command> event_commands();
[[nodiscard]] std::vector<command> delivery_commands();
[[nodiscard]] std::vector<command> replay_commands();
[[nodiscard]] std::vector<command> endpoint_commands();
[[nodiscard]] std::vector<command> endpoint_change_commands();
[[nodiscard]] std::vector<command> endpoint_test_commands();
[[nodiscard]] std::vector<command> purge_commands();
[[nodiscard]] std::vector<command> signature_commands();
[[nodiscard]] std::vector<command> version_commands();
[[nodiscard]] const std::vector<command>& all_commands();

// Which exit code an error means: a supervisor tells an unreachable database (69) and a bad configuration (78) from all else (1).
[[nodiscard]] int exit_code_for(const base::error& e) noexcept;

}  // namespace outboxd::daemon
