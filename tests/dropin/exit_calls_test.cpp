// What programs and their libraries have registered for their end is run at the end of the rank's program, by the rank.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace exit_calls_test {

using namespace meshbed::test;

namespace {

// The thread is joined by an exit call, as NCCL's is that watches for failures.
constexpr const char* kLibrary = R"(
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <time.h>
namespace {
std::thread worker;
std::mutex lock;
std::condition_variable changed;
bool stop = false;
void say(const char* text) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("%s %s at %ld.%09ld\n", std::getenv("RANK"), text, static_cast<long>(now.tv_sec), now.tv_nsec);
}
void join() {
  {
    const std::lock_guard hold(lock);
    stop = true;
  }
  changed.notify_one();
  worker.join();
  say("the library joined");
}
void later() { say("the library's second"); }
}
extern "C" void begin() {
  std::atexit(join);
  std::atexit(later);
  worker = std::thread([] {
    std::unique_lock hold(lock);
    changed.wait(hold, [] { return stop; });
  });
  say("the library begins");
}
)";

constexpr const char* kProgram = R"(
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
extern "C" void begin();
static void first() { std::printf("%s the program's first\n", std::getenv("RANK")); }
static void last() { std::printf("%s the program's last\n", std::getenv("RANK")); }
int main() {
  std::atexit(first);
#ifdef LIBRARY
  void* library = dlopen(LIBRARY, RTLD_NOW);
  if (library == nullptr) return 1;
  reinterpret_cast<void (*)()>(dlsym(library, "begin"))();
#else
  begin();
#endif
  std::atexit(last);
}
)";

/// Each rank's calls, the last one first, in virtual time: none passes, nor between the ranks. The simulator ends well.
void check(const CommandResult& run) {
  CAPTURE(run.output);
  CHECK(run.status == 0);
  const std::size_t time = run.output.find(" at ");
  REQUIRE(time != std::string::npos);
  const std::string at_begin = run.output.substr(time, run.output.find('\n', time) - time);
  for (const int rank : {0, 1}) {
    std::size_t at = 0;
    for (const char* text : {"the library begins", "the program's last", "the library's second", "the library joined",
                             "the program's first"}) {
      const bool of_library = std::string(text).find("library") != std::string::npos;
      const std::string line = fmt::format("rank{0}: {0} {1}{2}\n", rank, text, of_library ? at_begin : "");
      CHECK(lines_with(run.output, line) == 1);
      const std::size_t found = run.output.find(line, at);
      CHECK_MESSAGE(found != std::string::npos, line << " is not in order");
      if (found != std::string::npos) at = found;
    }
  }
}

}  // namespace

TEST_CASE("exit calls of a library that a program has opened are run with the program's, in reverse order") {
  const Programs programs("exit-calls-opened");
  programs.compile("c++ -shared -fPIC", "libown.so", kLibrary);
  programs.compile("c++ '-DLIBRARY=\"" + programs.folder() + "/libown.so\"'", "opens", kProgram);
  check(programs.run("opens", 2));
}

TEST_CASE("exit calls of a library that a program is linked with are run with the program's, in reverse order") {
  const Programs programs("exit-calls-linked");
  std::filesystem::create_directory(programs.folder() + "/own");
  programs.compile("c++ -shared -fPIC -Wl,-soname,libnccl.so.2", "own/libnccl.so.2", kLibrary);
  programs.compile("c++", "linked", kProgram, "'" + programs.folder() + "/own/libnccl.so.2'");
  check(programs.run("linked", 2, "nccl = \"own/libnccl.so.2\""));
}

TEST_CASE("quick_exit() runs what at_quick_exit() has registered, the last first, and no other exit call") {
  const Programs programs("exit-calls-quick");
  programs.compile("c++", "quick", R"(
#include <cstdio>
#include <cstdlib>
namespace {
struct Object {
  ~Object() { std::printf("destroyed\n"); }
} object;
void first() { std::printf("first of %s\n", std::getenv("RANK")); std::fflush(stdout); }
void second() { std::printf("second of %s\n", std::getenv("RANK")); std::fflush(stdout); }
void other() { std::printf("an exit call\n"); }
}
int main() {
  std::atexit(other);
  std::at_quick_exit(first);
  std::at_quick_exit(second);
  std::quick_exit(std::getenv("RANK")[0] == '1' ? 3 : 0);
}
)");
  const CommandResult run = programs.run("quick", 2);
  CAPTURE(run.output);
  for (const int rank : {0, 1}) {
    const std::size_t second = run.output.find(fmt::format("rank{0}: second of {0}\n", rank));
    CHECK(second != std::string::npos);
    CHECK(run.output.find(fmt::format("rank{0}: first of {0}\n", rank), second) != std::string::npos);
  }
  CHECK(lines_with(run.output, "destroyed") + lines_with(run.output, "an exit call") == 0);
  CHECK(run.status == 1);  // rank 1's program has ended with status 3
}

TEST_CASE("a rank that loses its power leaves its libraries' threads and objects as they are, and the simulator ends") {
  const Programs programs("exit-calls-killed");
  // The destructor of a std::thread that was not joined calls std::terminate().
  programs.compile("c++ -shared -fPIC", "libown.so", R"(
#include <cstdio>
#include <poll.h>
#include <thread>
namespace {
struct Worker {
  std::thread thread;
  ~Worker() { std::printf("destroyed\n"); }
} worker;
}
extern "C" void start_worker() { worker.thread = std::thread([] { poll(nullptr, 0, -1); }); }
extern "C" void detach_worker() { worker.thread.detach(); }
)");
  programs.compile("c++", "waits", R"(
#include <cstdlib>
#include <poll.h>
#include <string>
extern "C" void start_worker();
extern "C" void detach_worker();
int main() {
  start_worker();
  while (std::getenv("RANK") == std::string("1")) poll(nullptr, 0, -1);
  detach_worker();
}
)",
                   "'" + programs.folder() + "/libown.so'");
  const CommandResult run =
      programs.run("waits", 2, "", "[[fault]]\nkind = \"node_kill\"\ntarget = \"node1\"\nat = \"1s\"\n");
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(lines_with(run.output, "node1 has lost its power") >= 1);
  CHECK(lines_with(run.output, "terminate called") == 0);
  CHECK(lines_with(run.output, "destroyed") == 1);
}

TEST_CASE("each rank has its own copy of a library that its program is linked with, wherever the linker finds it") {
  const Programs programs("own-library");
  constexpr const char* kCounts = R"(
#include <string>
std::string& place() {
  static std::string text = "nowhere";
  return text;
}
int counter = 0;
extern "C" int count() { return ++counter; }
)";
  constexpr const char* kPrints = R"(
#include <cstdio>
#include <cstdlib>
#include <string>
extern "C" int count();
std::string& place();
extern int counter;
int main() {
  const std::string before = place();
  place() = std::getenv("RANK");
  const int counted = count();
  std::printf("counts %d, %d, was %s, is %s\n", counted, counter, before.c_str(), place().c_str());
}
)";
  std::filesystem::create_directory(programs.folder() + "/sub");
  const std::string library = programs.folder() + "/sub/libcounts.so";
  const std::string by_name = "-L'" + programs.folder() + "/sub' -lcounts";
  struct Way {
    const char* soname;
    std::string libraries, settings, variable = {};
  };
  for (const Way& way :
       {Way{"-Wl,-soname,libcounts.so", by_name + " '-Wl,-rpath,$ORIGIN/sub'", ""},
        Way{"-Wl,-soname,libcounts.so", by_name + " -Wl,--disable-new-dtags,-rpath,'" + programs.folder() + "/sub'",
            ""},
        Way{"-Wl,-soname,libcounts.so", by_name,
            "[environment]\nLD_LIBRARY_PATH = \"/nowhere:" + programs.folder() + "/sub\"\n"},
        Way{"-Wl,-soname,libcounts.so", by_name, "", programs.folder() + "/sub"}, Way{"", "'" + library + "'", ""}}) {
    CAPTURE(way.libraries);
    CAPTURE(way.settings);
    programs.compile(std::string("c++ -shared -fPIC ") + way.soname, "sub/libcounts.so", kCounts);
    programs.compile("c++", "counts", kPrints, way.libraries);
    if (!way.variable.empty()) ::setenv("LD_LIBRARY_PATH", way.variable.c_str(), 1);
    const CommandResult run = programs.run("counts", 3, "", way.settings);
    if (!way.variable.empty()) ::unsetenv("LD_LIBRARY_PATH");
    CAPTURE(run.output);
    CHECK(run.status == 0);
    for (const int rank : {0, 1, 2}) {
      CHECK(lines_with(run.output, fmt::format("rank{0}: counts 1, 1, was nowhere, is {0}\n", rank)) == 1);
    }
  }
}

}  // namespace exit_calls_test
