// Thread-local variables of ranks' programs, in every model that compilers have for them, while threads of two ranks
// take turns on the simulator's one thread.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace thread_local_test {

using namespace meshbed::test;

namespace {

// Each model, and the relocations or instructions that it becomes on x86-64 (ELF Handling For Thread-Local Storage).
struct Model {
  std::string name, compiler;
};
const Model kModels[] = {
    {"local-exec", "c++"},
    {"initial-exec", "c++ -shared -fPIC -ftls-model=initial-exec"},
    {"local-dynamic", "c++ -shared -fPIC -ftls-model=local-dynamic"},
    {"global-dynamic", "c++ -shared -fPIC -ftls-model=global-dynamic"},
    {"descriptors", "c++ -shared -fPIC -mtls-dialect=gnu2"},
    {"static-libstdcxx", "c++ -static-libstdc++"},
};

constexpr const char* kSteps = R"(
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
static thread_local int mine = 7;
static thread_local long count;
static thread_local const char* text = "own";
struct Last { int value = 0; ~Last() { std::printf("last %d\n", value); } };
static thread_local Last last;
void step(int by, int* wrong) {
  for (int i = 0; i < 40; ++i) {
    mine += by;
    ++count;
    last.value = by;
    usleep(10 + by);
    *wrong += mine != 7 + by * (i + 1) || count != i + 1 || text[0] != 'o';
  }
}
int main() {
  const int rank = std::atoi(std::getenv("RANK"));
  int wrong[3] = {};
  std::thread first(step, 10 * rank + 1, wrong), second(step, 10 * rank + 2, wrong + 1);
  step(10 * rank + 3, wrong + 2);
  first.join();
  second.join();
  int later = 0;
  std::thread(step, 10 * rank + 4, &later).join();
  std::printf("wrong %d\n", wrong[0] + wrong[1] + wrong[2] + later);
}
)";

}  // namespace

TEST_CASE("each thread of each rank has thread-local variables of its own, in every model") {
  const Programs programs("thread-local-models");
  for (const Model& model : kModels) {
    programs.compile(model.compiler, model.name, kSteps);
    const CommandResult run = programs.run(model.name, 2);
    CAPTURE(model.name);
    CAPTURE(run.output);
    CHECK(run.status == 0);
    CHECK(lines_with(run.output, "wrong 0\n") == 2);
    for (const int by : {1, 2, 3, 4, 11, 12, 13, 14}) {
      CHECK(lines_with(run.output, fmt::format("last {}\n", by)) == 1);
    }
  }
}

TEST_CASE("call_once and exceptions of the shared libstdc++ belong to the thread that they are in") {
  const Programs programs("thread-local-once");
  for (const Model& model : kModels) {
    if (model.name == "local-dynamic") continue;  // <mutex> names variables of the library's, which that model cannot
    programs.compile(model.compiler, model.name, R"(
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>
std::once_flag flags[2], failing;
int calls[2], tries;
int nested(int by) {  // waits while an exception is handled, and while one is on its way
  struct Waits { int by; ~Waits() { usleep(5 + by); } };
  try {
    const Waits waits{by};
    throw by;
  } catch (int caught) {
    usleep(7 * by);
    try {
      throw std::runtime_error("inner");
    } catch (const std::exception&) {
      usleep(by);
    }
    if (std::uncaught_exceptions() != 0) return -1;
    try { throw; } catch (int again) { return again == caught && caught == by ? 0 : 1; }
  }
}
void work(int by, int* wrong) {
  std::call_once(flags[by % 2], [&] { usleep(50); ++calls[by % 2]; });
  std::call_once(flags[(by + 1) % 2], [&] { usleep(70); ++calls[(by + 1) % 2]; });
  try {
    std::call_once(failing, [&] { usleep(3); if (++tries < 3) throw std::runtime_error("not yet"); });
  } catch (const std::runtime_error&) {
  }
  for (int i = 0; i < 20; ++i) *wrong += nested(by) != 0;
}
int main() {
  const int rank = std::atoi(std::getenv("RANK"));
  int wrong[3] = {};
  std::thread first(work, rank + 1, wrong), second(work, rank + 2, wrong + 1);
  work(rank + 3, wrong + 2);
  first.join();
  second.join();
  std::printf("calls %d %d tries %d wrong %d\n", calls[0], calls[1], tries, wrong[0] + wrong[1] + wrong[2]);
}
)");
    const CommandResult run = programs.run(model.name, 2);
    CAPTURE(model.name);
    CAPTURE(run.output);
    CHECK(run.status == 0);
    CHECK(lines_with(run.output, "calls 1 1 tries 3 wrong 0\n") == 2);
  }
}

TEST_CASE("a library that a program brings has thread-local variables for each thread of each rank") {
  const Programs programs("thread-local-library");
  for (const std::string model : {"initial-exec", "global-dynamic"}) {
    programs.build("cc -shared -fPIC -Wl,-soname,libcounts.so -ftls-model=" + model, "libcounts.so", [&] {
      const std::string path = programs.folder() + "/counts.c";
      std::ofstream(path) << "__thread long exported = 3; static __thread long own = 5;\n"
                             "long add(long by) { own += by; return exported + own; }\n";
      return path;
    }());
    for (const std::string compiler : {"c++", "c++ -shared -fPIC", "c++ -shared -fPIC -ftls-model=initial-exec"}) {
      programs.compile(
          compiler + " -Wl,-rpath,'" + programs.folder() + "' -L'" + programs.folder() + "' -Wl,--no-as-needed",
          "brings",
          R"(
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
extern "C" { extern __thread long exported; long add(long by); }
void step(int by, int* wrong) {
  for (int i = 0; i < 20; ++i) {
    exported += by;
    usleep(by);
    *wrong += add(by) != 8 + 2L * by * (i + 1);
    usleep(by);
  }
}
int main() {
  const int rank = std::atoi(std::getenv("RANK"));
  int wrong[2] = {};
  std::thread other(step, rank + 1, wrong);
  step(rank + 4, wrong + 1);
  other.join();
  std::printf("wrong %d\n", wrong[0] + wrong[1]);
}
)",
          "-lcounts");
      const CommandResult run = programs.run("brings", 2);
      CAPTURE(model);
      CAPTURE(compiler);
      CAPTURE(run.output);
      CHECK(run.status == 0);
      CHECK(lines_with(run.output, "wrong 0\n") == 2);
    }
  }
}

TEST_CASE("a program whose thread-local variables have no place is refused with what to do") {
  const Programs programs("thread-local-refused");
  programs.compile("c++", "large", "thread_local char all[9000]; int main(int count, char**) { return all[count]; }");
  const CommandResult run = programs.run("large", 2);
  CAPTURE(run.output);
  CHECK(run.status != 0);
  CHECK(lines_with(run.output, "9000 bytes of thread-local variables of its own") >= 1);
  CHECK(lines_with(run.output, "link it with -shared -fPIC, and keep main()") >= 1);
}

}  // namespace thread_local_test
