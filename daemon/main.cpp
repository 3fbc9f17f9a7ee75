// The binary's entry point: nothing but the hand-over to the command line.
#include "commands/cli.hpp"

int main(int argc, char** argv) {
    return outboxd::daemon::run_command_line(argc, argv);
}
