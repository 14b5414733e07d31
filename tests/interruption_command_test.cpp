// Ctrl-C in the simulated world: status 130 (SIGTERM: 143), what was measured stays, and nothing is left behind. Real
// processes and signals; each test waits for output of the command, not for a time.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "plugin/base/descriptor.h"
#include "tests/support/command.h"

namespace interruption_command_test {

using namespace meshbed::test;
namespace fs = std::filesystem;

namespace {

struct Interrupted {
  int status = -1;  // as waitpid() has it
  std::string output;
};

/// Runs the command in a process group of its own, sends the group `signal` when `sign` has been printed, and reads to
/// the end: a child that were left behind would hold the pipe open.
Interrupted interrupt(const std::string& arguments, const std::string& sign, int signal, bool group = true,
                      const std::string& before = "") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  meshbed::Descriptor output(ends[0]), input(ends[1]);
  const std::string line = before + "exec " + meshbed_program() + " " + arguments;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(input.number(), STDOUT_FILENO);
    dup2(input.number(), STDERR_FILENO);
    execl("/bin/bash", "bash", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  setpgid(child, child);
  input.close();
  Interrupted result;
  bool sent = false;
  constexpr int kPatienceMs = 120'000;
  std::array<char, 4096> block{};
  while (true) {
    pollfd watched{.fd = output.number(), .events = POLLIN, .revents = 0};
    if (poll(&watched, 1, kPatienceMs) <= 0) {
      kill(-child, SIGKILL);
      FAIL("nothing came: " << result.output);
    }
    const ssize_t count = read(output.number(), block.data(), block.size());
    if (count <= 0) break;
    result.output.append(block.data(), static_cast<std::size_t>(count));
    if (!sent && result.output.find(sign) != std::string::npos) {
      sent = true;
      kill(group ? -child : child, signal);
    }
  }
  CHECK_MESSAGE(sent, result.output);
  waitpid(child, &result.status, 0);
  return result;
}

bool exited(const Interrupted& result, int status) {
  return WIFEXITED(result.status) && WEXITSTATUS(result.status) == status;
}

const std::string kScenarios = std::string(MESHBED_SOURCE_DIR) + "/scenarios/";

}  // namespace

TEST_CASE("run: the seed shows at once, SIGINT ends with 130, and no file or folder is left") {
  const std::string folder = scratch_folder("interrupted_run");
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* fabric : {"chunk", "fluid"}) {
      const Interrupted result =
          interrupt("run " + kScenarios + "switch64.toml --set workload.iterations=5000 --fabric " + fabric +
                        " --results " + folder,
                    "seed 1", signal);
      CHECK_MESSAGE(exited(result, signal == SIGINT ? 130 : 143), result.output);
      CHECK(result.output.find("nothing of this run is kept") != std::string::npos);
      CHECK(fs::is_empty(folder));
    }
  }
}

TEST_CASE("run: an interrupted run leaves the one before it as it was") {
  const std::string folder = scratch_folder("interrupted_second");
  REQUIRE(run_command_line(meshbed_program() + " run " + kScenarios + "pair.toml --set workload.bytes=1M --results " +
                           folder + " 2>&1")
              .status == 0);
  const Interrupted result = interrupt(
      "run " + kScenarios + "pair.toml --set workload.iterations=100000 --results " + folder, "seed 1", SIGINT);
  CHECK_MESSAGE(exited(result, 130), result.output);
  CHECK(result.output.find("has the run before it") != std::string::npos);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder + "/pair/sim")) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"messages.csv", "provenance.json", "summary.json"});
}

TEST_CASE("perf: the rows so far are there without a terminal, and stay") {
  const Interrupted result =
      interrupt("perf all_reduce -b 8 -e 512K -i 8 --scenario " + kScenarios + "pair.toml", "          24 ", SIGINT);
  CHECK_MESSAGE(exited(result, 130), result.output);
  CHECK(result.output.find("           8 ") != std::string::npos);
  CHECK(result.output.find("meshbed: interrupted after ") != std::string::npos);
  CHECK(result.output.find(" sizes: the rows above stay\n") != std::string::npos);
}

TEST_CASE("fuzz, tune and bench: their children end with them, also where only the parent gets the signal") {
  // The pipe would stay open as long as a child lives: reading to its end proves that none does.
  for (const bool group : {true, false}) {
    const Interrupted tune =
        interrupt("tune " + kScenarios + "pair.toml -b 64 -e 16M -f 2", "all_reduce", SIGINT, group);
    CHECK_MESSAGE(exited(tune, 130), tune.output);
    const Interrupted bench = interrupt("bench --repetitions 1000", "ranks", SIGINT, group);
    CHECK_MESSAGE(exited(bench, 130), bench.output);
    const Interrupted explore = interrupt("fuzz --explore", "interruptions", SIGINT, group);
    CHECK_MESSAGE(exited(explore, 130), explore.output);
  }
}

TEST_CASE("a signal that was ignored at the start stays ignored, as in a shell's background job") {
  const std::string folder = scratch_folder("ignored_run");
  const Interrupted result = interrupt("run " + kScenarios + "pair.toml --set workload.bytes=1M --results " + folder,
                                       "seed 1", SIGINT, true, "trap '' INT; ");
  CHECK_MESSAGE(exited(result, 0), result.output);
}

TEST_CASE("--help lists the status") {
  CHECK(run_command_line(meshbed_program() + " --help").output.find("130 interrupted by Ctrl-C") != std::string::npos);
}

}  // namespace interruption_command_test
