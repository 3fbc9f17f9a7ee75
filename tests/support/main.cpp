// Role: the entry point of every Catch2 executable of the project.
// A receiver that resets its connection must not end the test process, so SIGPIPE is ignored as the daemon does. When
// OUTBOXD_TEST_COUNT names a file, "passed failed" of the test cases are written there at the end: tests/run.sh adds
// them up, and a file that is missing tells it of a crash, whatever reporter was chosen for people.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using listener_base = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using listener_base = Catch::TestEventListenerBase;
#endif

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace {

class count_writer final : public listener_base {
 public:
  using listener_base::listener_base;

  void testRunEnded(const Catch::TestRunStats& stats) override {
    const char* path = std::getenv("OUTBOXD_TEST_COUNT");
    if (path == nullptr) return;
    if (std::FILE* file = std::fopen(path, "w")) {
      const Catch::Counts& cases = stats.totals.testCases;
      std::fprintf(file, "%llu %llu\n", static_cast<unsigned long long>(cases.passed + cases.failedButOk),
                   static_cast<unsigned long long>(cases.failed));
      std::fclose(file);
    }
  }
};

CATCH_REGISTER_LISTENER(count_writer)

}  // namespace

int main(int argc, char* argv[]) {
  std::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return Catch::Session().run(argc, argv);
}
