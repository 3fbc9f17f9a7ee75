// Role: the entry point of every Catch2 executable of the project.
// A receiver that resets its connection must not end the test process, so SIGPIPE is ignored as the daemon does.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <csignal>
#include <cstdio>

int main(int argc, char* argv[]) {
  std::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return Catch::Session().run(argc, argv);
}
