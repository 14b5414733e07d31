// Kernels of a user's own: the example of docs/own-kernel.md, and the headers that it includes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/command.h"

namespace own_kernel_test {

using namespace meshbed::test;

namespace {

const std::string kSource = MESHBED_SOURCE_DIR;
const std::string kExample = kSource + "/docs/examples/own_kernel.cu";

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Empty, with a message: no nvcc is installed.
std::string nvcc() {
  const std::string found = run_command_line("ls /usr/local/cuda*/bin/nvcc 2>/dev/null | head -1 | tr -d '\n'").output;
  if (found.empty()) MESSAGE("skipped: no nvcc in /usr/local/cuda*/bin makes the program");
  return found;
}

/// Compiles and runs the source on the example's scenario, in a folder of its own.
CommandResult run_example(const std::string& compiler, const std::string& name, const std::string& source) {
  const std::string folder = scratch_folder(name);
  std::ofstream(folder + "/own_kernel.cu") << source;
  const CommandResult made = run_command_line(fmt::format(
      "cd '{0}' && {1} -std=c++17 -cudart shared -gencode arch=compute_90,code=compute_90 -I{2}/plugin/ring/include "
      "-I{2}/plugin/dropin own_kernel.cu -o own_kernel -L{3}/nccl-lib -lnccl 2>&1",
      folder, compiler, kSource, MESHBED_BINARY_DIR));
  REQUIRE_MESSAGE(made.status == 0, made.output);
  std::string scenario = content_of(kSource + "/docs/examples/own-kernel.toml");
  scenario.replace(scenario.find("../../build/own_kernel"), std::string("../../build/own_kernel").size(), "own_kernel");
  std::ofstream(folder + "/own-kernel.toml") << scenario;
  return run_command_line(
      fmt::format("cd '{}' && '{}' run own-kernel.toml --results results 2>&1", folder, meshbed_program()));
}

}  // namespace

TEST_CASE("the example of a persistent kernel sums its chunks by NCCL, as its page shows") {
  const std::string compiler = nvcc();
  if (compiler.empty()) return;
  const CommandResult run = run_example(compiler, "own-kernel", content_of(kExample));
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(count_of(run.output, ": 32 slots done, 0 wrong, ") == 4);
  const std::string page = content_of(kSource + "/docs/own-kernel.md");
  const std::size_t shown = page.find("rank0: 32 slots done");
  REQUIRE(shown != std::string::npos);
  const std::string first = page.substr(shown, page.find('\n', shown) - shown + 1);
  CHECK_MESSAGE(run.output.find(first) != std::string::npos, "docs/own-kernel.md has: ", first);
}

TEST_CASE("a kernel whose word nothing writes is named with the word, and the run ends by its limit") {
  const std::string compiler = nvcc();
  if (compiler.empty()) return;
  std::string source = content_of(kExample);
  const std::string write = "__atomic_store_n(&shared->reduced[";
  REQUIRE(count_of(source, write) == 1);
  source.replace(source.find(write), write.size(), "if (rank != 2) " + write);
  const CommandResult run = run_example(compiler, "own-kernel-waits", source);
  CAPTURE(run.output);
  CHECK(run.status == 3);  // limits.time is over
  CHECK(count_of(run.output,
                 "warning: kernel persistent(Shared*, float*, float, float) polls memory and nothing "
                 "changes it (") == 1);
  CHECK(count_of(run.output, " bytes of host memory at 0x") == 1);
  CHECK(count_of(run.output, ", which holds 0: a thread of the host or a copy has to write there") == 1);
}

TEST_CASE("the host's header is C11, C17 and C++17, without a warning") {
  for (const char* compile : {"gcc -std=c11 -x c", "gcc -std=c17 -x c", "g++ -std=c++17 -x c++"}) {
    const CommandResult made = run_command_line(
        fmt::format("{} -Wall -Wextra -Wpedantic -Werror -fsyntax-only {}/plugin/ring/include/meshbed/ring.h 2>&1",
                    compile, kSource));
    CHECK_MESSAGE(made.status == 0, compile, ": ", made.output);
  }
}

}  // namespace own_kernel_test
