// NVML in the test program: what a GPU is and has left, and what no model knows.
#include "sim/cuda/nvml/nvml.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/cuda/gpus.h"
#include "tests/support/command.h"

namespace nvml_test {

using namespace meshbed::test;

TEST_CASE("NVML outside of a simulation is a library without a driver") {
  const CommandResult run = run_command_line(
      "cd '" + scratch_folder("nvml-outside") +
      "' && printf '#include <stdio.h>\\nint nvmlInit_v2(void); const char* nvmlErrorString(int); int "
      "nvmlDeviceGetSerial(void*, char*, unsigned);\\nint main(void) { printf(\"%%d %%d %%s\\\\n\", nvmlInit_v2(), "
      "nvmlDeviceGetSerial(0, 0, 0), nvmlErrorString(9)); }\\n' >a.c && cc a.c -o a '" MESHBED_BINARY_DIR
      "/cuda-lib/libnvidia-ml.so.1' -Wl,-rpath,'" MESHBED_BINARY_DIR "/cuda-lib' && ./a 2>&1");
  CHECK(run.output == "9 9 this library works in a simulation only\n");
}

TEST_CASE("NVML of a program: memory, links, peers, events, versions") {
  const std::string program = scratch_folder("nvml-program") + "/nvml_calls";
  const CommandResult made =
      run_command_line("cc -o '" + program + "' '" MESHBED_SOURCE_DIR "/tests/cuda/program/nvml_calls.c' -ldl 2>&1");
  REQUIRE_MESSAGE(made.status == 0, made.output);
  const CommandResult run = run_command_line(
      "'" MESHBED_BINARY_DIR "/bin/meshbed' cuda run --virtual --gpu H100,GB10 '" + program + "' 2>&1");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  for (const char* line : {
           "versions: driver 580.0.0-meshbed, NVML 13.580.0-meshbed, CUDA 13000\n",
           "0: Meshbed simulated H100, compute capability 9.0, architecture 9, PCIe generation 5 of 16 lanes\n",
           "1: Meshbed simulated GB10, compute capability 12.1, architecture 10, PCIe generation: Not Supported\n",
           "used 0, then 1048576, total as CUDA's\n",
           "bus 00000000:11:00.0, by index 1, by its name the same\n",
           "links 0, state 0, past the last: Invalid Argument, remote: Not Supported\n",
           "peers: itself 0, the other 5\n",
           "fabric state 0, MIG: Not Supported, platform: Not Supported\n",
           "an event: Timeout\n",
           "short buffer: Insufficient Size, unknown device: Invalid Argument, wrong version: Argument Version "
           "Mismatch\n",
           "temperature: Not Supported\n",
       }) {
    CHECK_MESSAGE(run.output.find(line) != std::string::npos, line);
  }
}

}  // namespace nvml_test
