// The command line: finds the command, parses its flags, runs it, turns faults into sentences and exit codes. Floor 5.
#pragma once

namespace outboxd::daemon {

// Returns the exit code. Overwrites secrets in argv before anything else, so that they do not stay in the process list.
int run_command_line(int argc, char** argv);

}  // namespace outboxd::daemon
