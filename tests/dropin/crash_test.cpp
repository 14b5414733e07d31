// Ranks whose programs are stopped by a signal, or never return to the simulator: the run ends as any failed run, and
// names the rank, the reason and the place.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace crash_test {

using namespace meshbed::test;

namespace {

/// Rank 1 does what argv[1] names while the others are in a collective.
constexpr const char* kSource = R"(#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
volatile int zero = 0;
int* volatile nothing = nullptr;
char* volatile memory = nullptr;
#define APART __attribute__((noinline, noclone))
APART int deeper(int n) { volatile char here[200]; here[0] = n; return n < 0 ? 0 : deeper(n + 1) + here[0]; }
APART int large() { volatile char here[9 << 20]; here[0] = 1; return here[5]; }
APART void fill(int* at) { *at = 7; }
APART void spin() { for (volatile long i = 0;; ++i) {} }
APART void* in_thread(void*) { fill(nothing); return nullptr; }
int main(int, char** argv) {
  const std::string how = argv[1];
  const int rank = std::atoi(std::getenv("RANK"));
  float x[8] = {};
  ncclUniqueId id;
  ncclComm_t comm;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return 2;
  if (rank == 1) {
    if (how == "segv") fill(nothing + 4);
    if (how == "fpe") std::printf("%d", 5 / zero);
    if (how == "ill") __builtin_trap();
    if (how == "bus") {
      auto* page = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(std::tmpfile()), 0);
      fill(static_cast<int*>(page) + 1500);
    }
    if (how == "overflow") std::printf("%d", deeper(0));
    if (how == "large") std::printf("%d", large());
    if (how == "wild") reinterpret_cast<void (*)()>(nothing)();
    if (how == "throw") throw 42;
    if (how == "free") { memory = static_cast<char*>(std::malloc(3000)); std::free(memory + 16); }
    if (how == "thread") {
      pthread_t thread;
      pthread_create(&thread, nullptr, in_thread, nullptr);
      pthread_join(thread, nullptr);
    }
    if (how == "spin") spin();
  }
  return ncclAllReduce(x, x, 8, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess;
}
)";

/// The line of kSource that has `text`, as a trace shows it.
std::string place_of(const std::string& text) {
  const std::string before = std::string(kSource).substr(0, std::string(kSource).find(text));
  return fmt::format("crash.cpp:{}", std::count(before.begin(), before.end(), '\n') + 1);
}

}  // namespace

TEST_CASE("a rank that is stopped by a signal ends the run with the signal, the address, and the calls under way") {
  const Programs programs("crash-signals");
  programs.compile("c++ -g", "crash", kSource);
  const auto run = [&](const std::string& how, const std::string& more = "") {
    CommandResult result = programs.run("crash", 3, "arguments = [\"" + how + "\"]\n" + more);
    INFO(how);
    CAPTURE(result.output);
    CHECK(result.status == 1);
    CHECK(lines_with(result.output, ": rank 1: ") == 1);
    CHECK(lines_with(result.output, "FAILED: 1 error") == 1);
    CHECK(lines_with(result.output, "\ndigest ") == 1);
    return result.output;
  };
  const auto has = [](const std::string& output, const std::string& text) {
    CAPTURE(output);
    CHECK(lines_with(output, text) == 1);
  };
  const std::string fill = "fill(int*) (" + place_of("APART void fill") + ")";
  has(run("segv"), "rank 1: SIGSEGV at address 0x10 (nothing is mapped there) in " + fill + "\n    " + fill +
                       "\n    main (" + place_of("how == \"segv\"") + ")\n");
  has(run("fpe"), "rank 1: SIGFPE (integer division by zero) in main (" + place_of("how == \"fpe\""));
  has(run("ill"), "rank 1: SIGILL (illegal instruction) in main (" + place_of("how == \"ill\""));
  const std::string bus = run("bus");
  has(bus, "rank 1: SIGBUS at address 0x");
  has(bus, " (past the end of a mapped file) in " + fill);
  const std::string overflow = run("overflow");
  has(overflow, "(stack overflow, past 8 MiB) in deeper(int) (crash.cpp:");
  CHECK(std::regex_search(overflow, std::regex("\n    \\.\\.\\. [0-9]{4,} calls\n")));
  has(overflow, "\n    main (" + place_of("how == \"overflow\"") + ")\n");
  has(run("large"), "(stack overflow, past 8 MiB) in large() (crash.cpp:");
  has(run("wild"), "rank 1: SIGSEGV at address 0x0 (a call of an address that is no code) in main (");
  has(run("throw"), "rank 1: SIGABRT in main (" + place_of("throw 42"));
  has(run("free"), "rank 1: SIGABRT in main (" + place_of("std::free"));
  const std::string thread = run("thread");
  has(thread, "nothing is mapped there) in " + fill + ", thread ");
  has(thread, "\n    in_thread(void*) (" + place_of("APART void* in_thread"));
  const std::string busy = run("spin", "busy_limit_s = 1");
  has(busy, "rank 1: its program has run for 1 s of wall-clock time without a call that waits");
  has(busy, " in spin() (" + place_of("APART void spin") + ")\n    ");
}

TEST_CASE("a rank that is stopped is in the summary, and the digest does not depend on where its memory is") {
  const Programs programs("crash-summary");
  programs.compile("c++ -g", "crash", kSource);
  std::string digest;
  for (const char* const contexts : {"", "", "--contexts raw", "--contexts thread"}) {
    const CommandResult run = programs.run("crash", 3, "arguments = [\"overflow\"]", "", contexts);
    CAPTURE(run.output);
    CHECK(run.status == 1);
    const CommandResult file = run_command_line("cat '" + programs.folder() + "/results/ring/sim/summary.json'");
    const auto summary = nlohmann::json::parse(file.output);
    REQUIRE(summary.at("errors").size() == 1);
    CHECK(summary.at("errors").at(0).at("rank") == 1);
    CHECK(summary.at("errors").at(0).at("text").get<std::string>().starts_with("SIGSEGV at address 0x"));
    const std::string said = run.output.substr(run.output.find("\ndigest "), 24);
    CHECK((digest.empty() || digest == said));
    digest = said;
  }
}

TEST_CASE("a rank that writes without end is stopped by the limit of output, by any way of writing") {
  const Programs programs("crash-flood");
  programs.compile("c++ -g", "flood", R"(
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <sys/uio.h>
#include <unistd.h>
int main(int, char** arguments) {
  const std::string how = arguments[1], line(1000, 'x');
  for (long turn = 0;; ++turn) {
    if (std::strcmp(std::getenv("RANK"), "1") != 0) {  // the others write a little and wait
      if (turn < 3) std::printf("waits\n");
      usleep(1);
      continue;
    }
    if (how == "printf") std::printf("%s\n", line.c_str());
    if (how == "endless-line") std::fputs(line.c_str(), stdout);
    if (how == "cout") std::cout << line << std::endl;
    if (how == "stderr") std::fprintf(stderr, "%s\n", line.c_str());
    if (how == "cerr") std::cerr << line << "\n";
    if (how == "write") if (write(1, line.data(), line.size()) != 1000) return 3;
    if (how == "writev") {
      iovec parts[2] = {{(void*)line.data(), 500}, {(void*)line.data(), 500}};
      if (writev(2, parts, 2) != 1000) return 3;
    }
    if (turn % 100 == 99) usleep(1);
  }
}
)");
  for (const char* const how : {"printf", "endless-line", "cout", "stderr", "cerr", "write", "writev"}) {
    const CommandResult run =
        programs.run("flood", 3, fmt::format("arguments = [\"{}\"]\noutput_limit_mib = 1\nbusy_limit_s = 20", how));
    INFO(how);
    const std::string end = run.output.substr(run.output.size() - std::min<std::size_t>(run.output.size(), 3000));
    CAPTURE(end);
    CHECK(run.status == 1);
    CHECK(run.output.size() < 1'200'000);
    CHECK(lines_with(run.output, ": waits\n") == 6);
    CHECK(lines_with(run.output,
                     "rank 1: the ranks have written more than 1 MiB of output, rank1 1.0 MiB of it: write less, write "
                     "to a file, or raise workload.output_limit_mib") == 1);
  }
}

TEST_CASE("a rank that computes for long between its calls, and one that only waits, are no busy loops") {
  const Programs programs("crash-not-busy");
  programs.compile("c++", "works", R"(
#include <chrono>
#include <cstdio>
#include <unistd.h>
int main() {
  for (int turn = 0; turn < 60; ++turn) {
    for (volatile long i = 0; i < 10'000'000; ++i) {}
    usleep(1);
  }
  sleep(3000);
  std::puts("done");
}
)");
  const CommandResult run = programs.run("works", 2, "busy_limit_s = 1");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, ": done\n") == 2);
}

}  // namespace crash_test
