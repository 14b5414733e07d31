// Workload `program`: files that know nothing of the simulator, as the ranks of `meshbed run`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace workload_test {

using namespace meshbed::test;

TEST_CASE("a program of nccl.h runs as it is, or as a shared object, as every rank; each run is like the other") {
  const Programs programs("workload-nccl");
  programs.build("cc", "four_ranks", kPrograms + "four_ranks.c");
  programs.build("cc -shared -fPIC", "four_ranks.so", kPrograms + "four_ranks.c");
  std::string digest;
  for (const std::string name : {"four_ranks", "four_ranks.so", "four_ranks"}) {
    const CommandResult run = programs.run(name, 4);
    CAPTURE(run.output);
    CHECK(run.status == 0);
    CHECK(lines_with(run.output, "all is right") == 4);
    CHECK(lines_with(run.output, "every rank's program ended with status 0: 4 of 4") == 1);
    if (name != "four_ranks") continue;
    const std::string said = run.output.substr(run.output.find("digest "), 23);
    CHECK((digest.empty() || digest == said));
    digest = said;
  }
}

TEST_CASE("the page's program on a simulated cluster, as it is started there") {
  std::ifstream file(MESHBED_SOURCE_DIR "/docs/nccl-dropin.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::size_t section = page.find("## On a simulated cluster");
  REQUIRE(section != std::string::npos);
  const std::string fence = "```shell\n";
  const std::size_t begin = page.find(fence, section) + fence.size();
  std::string commands = page.substr(begin, page.find("```", begin) - begin);
  commands = std::regex_replace(commands, std::regex("build/programs"), scratch_folder("workload-page"));
  commands = std::regex_replace(commands, std::regex("build/nccl-lib"), kBuild + "/nccl-lib");
  commands = std::regex_replace(commands, std::regex("\\./meshbed"), kBuild + "/bin/meshbed");
  const CommandResult run = run_command_line("cd '" MESHBED_SOURCE_DIR "' && exec 2>&1; set -e\n" + commands);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "every rank's program ended with status 0: 4 of 4") == 1);
}

TEST_CASE("CUDA's streams, graphs and memory in a program as it is, on nodes with GPUs") {
  const Programs programs("workload-cuda");
  programs.build("cc -I" MESHBED_SOURCE_DIR, "two_streams", kPrograms + "two_streams.c",
                 "-L" + kBuild + "/cuda-lib -lcuda");
  const CommandResult run = programs.run("two_streams", 4, "", "gpus = 1\ngpu_model = \"H100\"\n");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "all is right") == 4);
}

TEST_CASE("a program of nvcc's with kernels, its runtime and NCCL, as it is") {
  const std::string nvcc = run_command_line("ls /usr/local/cuda*/bin/nvcc 2>/dev/null | head -1 | tr -d '\\n'").output;
  if (nvcc.empty()) {
    MESSAGE("skipped: no nvcc in /usr/local/cuda*/bin makes the program");
    return;
  }
  const Programs programs("workload-nvcc");
  const CommandResult made =
      run_command_line(fmt::format("'{}' -arch=sm_90 -cudart shared '{}sum_of_ranks.cu' -o '{}/sum_of_ranks' {} 2>&1",
                                   nvcc, kPrograms, programs.folder(), kNccl));
  REQUIRE_MESSAGE(made.status == 0, made.output);
  const CommandResult run = programs.run("sum_of_ranks", 3, "", "gpus = 1\ngpu_model = \"H100\"\n");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(lines_with(run.output, fmt::format("rank{}: all 65536 are 106\n", rank)) == 1);
  }
}

TEST_CASE(
    "each rank is a process: arguments, environment, output in lines, constructors, exit and what is done there") {
  const Programs programs("workload-process");
  programs.compile("c++", "process", R"(
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
int counter = 0;
struct First {
  const char* rank = std::getenv("RANK");
  First() { ++counter; }
  ~First() { std::printf("destroyed %s\n", rank); }
} first;
struct Local { ~Local() { std::puts("unwound"); } };
void leave(int status) noexcept { std::exit(status); }
int main(int argc, char** argv) {
  Local local;
  std::atexit([] { std::puts("at exit"); });
  std::printf("%d ", ++counter);
  std::cout << argc << " " << argv[1] << "|" << argv[2] << " of " << std::getenv("WORLD_SIZE") << " on "
            << std::getenv("LOCAL_RANK") << "/" << std::getenv("LOCAL_WORLD_SIZE") << std::endl;
  std::fputs("no end", stdout);
  leave(0);
}
)");
  const CommandResult run = programs.run("process", 4, "arguments = [\"two words\", \"\"]\nranks_per_node = 2", "");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(lines_with(run.output, fmt::format("rank{}: 2 3 two words| of 8 on {}/2\n", rank, rank % 2)) == 1);
    CHECK(lines_with(run.output, fmt::format("rank{}: no endat exit\nrank{}: destroyed {}\n", rank, rank, rank)) == 1);
  }
  CHECK(lines_with(run.output, "unwound") == 0);
}

TEST_CASE("threads, condition variables and clocks of the shared libstdc++ are simulated; its futures are refused") {
  const Programs programs("workload-threads");
  programs.compile("c++", "threads", R"(
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>
using namespace std::chrono;
int main() {
  const auto begun = steady_clock::now();
  const auto date = system_clock::now();
  std::mutex mutex;
  std::condition_variable changed, others;
  int sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::this_thread::sleep_for(hours(i));
      const std::lock_guard<std::mutex> lock(mutex);
      sum += i;
      changed.notify_one();
      others.notify_all();
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return sum == 6; });
  }
  for (std::thread& thread : threads) thread.join();
  std::thread([] { std::this_thread::sleep_for(hours(99)); }).detach();
  std::printf("%d after %ld and %ld hours\n", sum, static_cast<long>((steady_clock::now() - begun) / hours(1)),
              static_cast<long>((system_clock::now() - date) / hours(1)));
}
)");
  const CommandResult run = programs.run("threads", 2, "", "[limits]\ntime = \"20000s\"\n");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  for (int rank = 0; rank < 2; ++rank)
    CHECK(lines_with(run.output, fmt::format("rank{}: 6 after 3 and 3 hours\n", rank)) == 1);
  programs.compile("c++", "futures", R"(
#include <future>
int main() { return std::async(std::launch::async, [] { return 0; }).get(); }
)");
  const CommandResult refused = programs.run("futures", 2);
  CAPTURE(refused.output);
  CHECK(refused.status != 0);
  CHECK(lines_with(refused.output, "link with -shared -fPIC -static-libstdc++ -Wl,--exclude-libs,ALL") >= 1);
}

TEST_CASE("who ends badly is named with its status, and the others end with it") {
  const Programs programs("workload-bad");
  programs.compile("c++", "bad", R"(
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <stdexcept>
#include <string>
int main(int, char** argv) {
  const std::string how = argv[1];
  const int rank = std::atoi(std::getenv("RANK"));
  float x[8] = {};
  ncclUniqueId id;
  ncclComm_t comm;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return 2;
  if (rank == 1 && how == "return") return 9;
  if (rank == 1 && how == "exit") std::_Exit(300);
  if (rank == 1 && how == "abort") std::abort();
  if (rank == 1 && how == "throw") throw std::logic_error("which is not caught");
  if (rank == 1) assert(how == "right");
  return ncclAllReduce(x, x, 8, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess;
}
)");
  const auto run = [&](const std::string& how) {
    CommandResult result = programs.run("bad", 3, "arguments = [\"" + how + "\"]");
    CAPTURE(result.output);
    CHECK(result.status != 0);
    CHECK(lines_with(result.output, "FAILED: 1 error") == 1);
    CHECK(lines_with(result.output, "rank 1: ") >= 1);
    return result.output;
  };
  CHECK(lines_with(run("return"), "rank 1: " + programs.folder() + "/bad ended with status 9\n") == 1);
  CHECK(lines_with(run("throw"), "rank 1: which is not caught") == 1);
  CHECK(lines_with(run("exit"), "ended with status 44\n") == 1);
  CHECK(lines_with(run("abort"), "rank 1: its program called abort() in main") == 1);
  CHECK(lines_with(run("assert"), "rank 1: Assertion `how == \"right\"' failed in main") == 1);
}

TEST_CASE("a thread that calls exit() ends itself alone, also behind main()'s end") {
  const Programs programs("workload-late");
  programs.compile("c++", "late", R"(
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
int main() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::exit(5);
  }).detach();
  if (std::string(std::getenv("RANK")) == "0") std::this_thread::sleep_for(std::chrono::seconds(2));
}
)");
  const CommandResult run = programs.run("late", 2);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "exit() outside of main()'s thread ends that thread alone") == 2);
  CHECK(lines_with(run.output, "every rank's program ended with status 0: 2 of 2") == 1);
}

TEST_CASE("what cannot be a rank's program is refused with what to do") {
  const Programs programs("workload-refused");
  const auto refused = [&](const std::string& name, const std::string& why) {
    const CommandResult run = programs.run(name, 2);
    CAPTURE(run.output);
    CHECK(run.status != 0);
    CHECK(lines_with(run.output, why) >= 1);
  };
  refused("", "needs program");
  refused("no_such", "program: there is no file 'no_such'");
  std::ofstream(programs.folder() + "/text") << "no ELF file, but as long as a header of one would be, and longer";
  refused("text", "text: not an ELF file");
  programs.compile("c++ -no-pie", "fixed", "int main() {}");
  refused("fixed", "linked for fixed addresses, so that no two ranks can have it: link with -pie");
  programs.compile("c++ -shared -fPIC", "library", "int mine = 7;");
  refused("library", "no main() is found in it");
  programs.compile("c++", "right", "int main() {}");
  CHECK(programs.run("right", 2).status == 0);
  const CommandResult alone = run_command_line(
      fmt::format("cd '{}' && (cat ring.toml && printf '\\n[management]\\nenabled = false\\n') >alone.toml && "
                  "'{}/bin/meshbed' run alone.toml 2>&1",
                  programs.folder(), kBuild));
  CHECK(alone.status == 2);
  CHECK(lines_with(alone.output, "enabled: the ranks of a program meet over the management network; leave it on") == 1);
  for (const std::string world : {"emu", "metal"}) {
    const CommandResult other = run_command_line(
        fmt::format("cd '{}' && '{}/bin/meshbed' run ring.toml --world {} 2>&1", programs.folder(), kBuild, world));
    CHECK(other.status == 2);
    CHECK(
        lines_with(other.output, "programs are ranks in the simulated world alone; in emulated nodes `meshbed exec`"));
  }
}

}  // namespace workload_test
