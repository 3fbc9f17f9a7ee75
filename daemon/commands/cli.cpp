// The only file that knows the parser library. It parses one command's flags; words, near matches and help are ours, so that every command speaks alike.
#include "commands/cli.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/kill_hook.hpp"
#include "commands/command.hpp"
#include "commands/help.hpp"
#include "commands/hide.hpp"
#include "commands/output.hpp"
#include "config/near_match.hpp"

namespace outboxd::daemon {
namespace {

std::string hint(const std::string& near) {
    return near.empty() ? std::string{} : "; did you mean '" + near + "'?";
}

// The command whose words begin the line, and how many words that took.
struct found_command {
    const command* it{nullptr};
    std::size_t words{0};
};

found_command find_command(const std::vector<std::string>& words) {
    for (const auto& c : all_commands()) {
        if (words.size() >= 2 && c.name == words[0] + " " + words[1]) return {&c, 2};
    }
    for (const auto& c : all_commands()) {
        if (!words.empty() && c.name == words[0]) return {&c, 1};
    }
    return {};
}

[[noreturn]] void refuse_unknown(const std::vector<std::string>& words) {
    if (words[0].starts_with("-")) throw usage_error("commands come first, flags after: outboxd COMMAND " + words[0].substr(0, words[0].find('=')) + " ...");
    std::vector<std::string> first_words, group;
    for (const auto& c : all_commands()) {
        const auto space = c.name.find(' ');
        first_words.push_back(c.name.substr(0, space));
        if (space != std::string::npos && c.name.substr(0, space) == words[0]) group.push_back(c.name.substr(space + 1));
    }
    if (group.empty()) throw usage_error("unknown command '" + base_printable(words[0]) + "'" + hint(config::near_match(words[0], first_words)));
    if (words.size() < 2 || words[1].starts_with("-")) throw usage_error("'" + words[0] + "' wants one of: " + joined(group, ", "));
    throw usage_error("unknown command '" + words[0] + " " + base_printable(words[1]) + "'" + hint(config::near_match(words[1], group)));
}

std::vector<flag> flags_of(const command& c) {
    auto flags = c.flags;
    if (c.database) {
        flags.push_back({"--config", "FILE", "configuration file (default /etc/outboxd/outboxd.yaml)"});
        flags.push_back({"--database", "URL", "database, over OUTBOXD_DATABASE_URL, over the file"});
    }
    if (c.prints) flags.push_back({"--json", "", "print one JSON document"});
    return flags;
}

// Flags that the command does not have are named with a near match before the library sees them: it would call them leftovers.
void refuse_unknown_flags(const std::vector<std::string>& words, const std::vector<flag>& flags) {
    std::vector<std::string> names{"--help"};
    for (const auto& f : flags) names.push_back(f.name);
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "--") return;
        if (words[i].size() < 2 || words[i][0] != '-') continue;
        const auto equals = words[i].find('=');
        const std::string name = words[i].substr(0, equals);
        const auto known = std::find_if(flags.begin(), flags.end(), [&](const flag& f) { return f.name == name; });
        if (known == flags.end() && name != "--help" && name != "-h")
            throw usage_error("unknown flag '" + base_printable(name) + "'" + hint(config::near_match(name, names)));
        if (known != flags.end() && known->value.empty() && equals != std::string::npos) throw usage_error(name + " takes no value");
        if (known == flags.end() || known->value.empty() || equals != std::string::npos) continue;
        // A value that looks like a flag is a forgotten value; one that really begins with dashes is written --flag=VALUE.
        if (i + 1 == words.size() || (words[i + 1].starts_with("--") && words[i + 1].size() > 2))
            throw usage_error(name + " wants a value: " + name + " " + known->value);
        ++i;
    }
}

arguments parse(const command& c, std::vector<std::string> words) {
    const auto flags = flags_of(c);
    refuse_unknown_flags(words, flags);
    CLI::App app{c.summary, "outboxd " + c.name};
    app.set_help_flag();
    std::map<std::string, std::vector<std::string>> values;
    for (const auto& f : flags) {
        if (f.value.empty()) {
            app.add_flag(f.name)->multi_option_policy(CLI::MultiOptionPolicy::Throw)->disable_flag_override();
        } else {
            app.add_option(f.name, values[f.name])->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        }
    }
    // One list for all operands: the library would give a list's first operand all that follow.
    std::vector<std::string> operands;
    if (!c.operands.empty()) app.add_option("operands", operands)->expected(0, CLI::detail::expected_max_vector_size);
    std::reverse(words.begin(), words.end());  // the library reads the vector from its end
    try {
        app.parse(words);
    } catch (const CLI::ExtrasError&) {
        throw usage_error("'" + c.name + "' takes no operands");
    } catch (const CLI::ParseError& e) {
        throw usage_error(e.what());
    }
    arguments result;
    result.command = c.name;
    for (const auto& f : flags) {
        const auto count = app.get_option(f.name)->count();
        if (count == 0) continue;
        if (count > 1 && !f.repeatable) throw usage_error(f.name + " is given " + std::to_string(count) + " times; once is enough");
        result.put(f.name, f.value.empty() ? std::vector<std::string>{"true"} : values[f.name]);
    }
    std::size_t wanted = 0;
    bool any_number = false;
    for (const auto& o : c.operands) {
        wanted += static_cast<std::size_t>(std::max(o.max, o.min));
        any_number = any_number || o.max < 0;
        if (o.min > 0 && operands.size() < wanted) throw usage_error("'" + c.name + "' wants " + o.name + ": " + o.help);
    }
    if (!any_number && operands.size() > wanted) throw usage_error("'" + c.name + "' does not take '" + base_printable(operands[wanted]) + "'");
    result.operands = std::move(operands);
    return result;
}

int dispatch(const std::vector<std::string>& words) {
    if (words.empty()) {
        std::cerr << overview();
        return exit_usage;
    }
    const bool asks_help = words[0] == "help" || words[0] == "--help" || words[0] == "-h";
    if (asks_help && words.size() == 1) {
        std::cout << overview();
        return exit_done;
    }
    auto line = words;
    if (words[0] == "--version") line[0] = "version";
    if (asks_help) {
        line.erase(line.begin());
        line.emplace_back("--help");
    }
    const auto found = find_command(line);
    const bool wants_help =
        std::any_of(line.begin(), std::find(line.begin(), line.end(), "--"), [](const std::string& w) { return w == "--help" || w == "-h"; });
    if (found.it == nullptr) {
        if (wants_help && std::any_of(all_commands().begin(), all_commands().end(), [&](const command& c) { return c.name.starts_with(line[0] + " "); })) {
            std::cout << group_overview(line[0]);
            return exit_done;
        }
        refuse_unknown(line);
    }
    if (wants_help) {
        std::cout << help_of(*found.it, flags_of(*found.it));
        return exit_done;
    }
    line.erase(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(found.words));
    return found.it->run(parse(*found.it, line));
}

}  // namespace

int run_command_line(int argc, char** argv) {
    const auto words = take_arguments(argc, argv);
    const char* kill_at = std::getenv("OUTBOXD_KILL_AT");
    if (const auto wrong = base::arm_kill_hook(kill_at == nullptr ? "" : kill_at)) {
        std::cerr << "error: environment: OUTBOXD_KILL_AT: " << *wrong << '\n';
        return exit_bad_config;
    }
    int code = exit_failed;
    try {
        code = dispatch(words);
    } catch (const usage_error& e) {
        const auto found = find_command(words);
        std::cerr << "outboxd: " << e.what() << "\nTry 'outboxd " << (found.it != nullptr ? found.it->name + " " : "") << "--help'.\n";
        code = exit_usage;
    } catch (const base::failure& e) {
        std::cerr << "outboxd: " << e.why().text << "\n";
        code = exit_code_for(e.why());
    } catch (const std::exception& e) {
        std::cerr << "outboxd: " << e.what() << "\n";
    }
    // A full disk or a closed pipe behind stdout must not look like success.
    std::cout.flush();
    if ((!std::cout || std::fflush(stdout) != 0) && code == exit_done) {
        std::cerr << "outboxd: cannot write the output\n";
        code = exit_failed;
    }
    return code;
}

const std::vector<command>& all_commands() {
    static const std::vector<command> all = [] {
        std::vector<command> list;
        for (auto* part : {run_commands, migrate_commands, check_commands, status_commands, why_commands, event_commands, delivery_commands, replay_commands,
                           endpoint_commands, endpoint_change_commands, endpoint_test_commands, purge_commands, signature_commands, version_commands}) {
            auto some = part();
            list.insert(list.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
        }
        return list;
    }();
    return all;
}

}  // namespace outboxd::daemon
