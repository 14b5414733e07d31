// The engine's reductions as GPU kernels (plugin/coll/reduce/reduce_gpu.cu): the same bits as the processor's.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/support/command.h"

namespace reduce_twin_test {

using namespace meshbed::test;

namespace {

const std::string kBuild = MESHBED_BINARY_DIR;
const std::string kTwin = kBuild + "/bin/cuda-reduce-twin 2>&1";
constexpr int kNoGpu = 77;

}  // namespace

TEST_CASE("every form, type and operation: a GPU's kernel makes the processor's bits, from its memory and pinned") {
  const CommandResult run = run_command_line(kBuild + "/bin/meshbed cuda run --virtual " + kTwin);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(run.output.find("Meshbed simulated H100") == 0);
  CHECK(run.output.find(", 0 wrong\n") != std::string::npos);
}

TEST_CASE("the same on a real GPU, where one is at hand") {
  const CommandResult run = run_command_line(kTwin);
  CAPTURE(run.output);
  if (run.status == kNoGpu) {
    MESSAGE("not looked at: " << run.output);
    return;
  }
  CHECK(run.status == 0);
  CHECK(run.output.find(", 0 wrong\n") != std::string::npos);
}

}  // namespace reduce_twin_test
