// Secrets on the command line: copied, then overwritten where `ps` and /proc/PID/cmdline read them. Floor 5.
#pragma once

#include <string>
#include <vector>

namespace outboxd::daemon {

// The arguments after the program's name. In argv itself the values of --database, --secret and --set, signing secrets and passwords in URLs are overwritten by
// `x`.
[[nodiscard]] std::vector<std::string> take_arguments(int argc, char** argv);

}  // namespace outboxd::daemon
