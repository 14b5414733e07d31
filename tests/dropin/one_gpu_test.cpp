// The program of docs/nccl-dropin.md, "With the real NCCL on one GPU": as the page starts it, on the drop-in with a
// simulated GPU, and on NVIDIA's NCCL and driver where a machine has them; and what is recorded of it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/support/command.h"
#include "tests/support/free_address.h"

namespace one_gpu_test {

using namespace meshbed::test;

namespace {

const std::string kBuild = MESHBED_BINARY_DIR;

/// The page's commands, on this build and at a free port; `before` stands before the program's name.
std::string shown(const std::string& before) {
  std::ifstream file(MESHBED_SOURCE_DIR "/docs/nccl-dropin.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::string fence = "```shell\n";
  const std::size_t section = page.find("## With the real NCCL on one GPU");
  REQUIRE(section != std::string::npos);
  const std::size_t begin = page.find(fence, section);
  REQUIRE(begin != std::string::npos);
  std::string commands = page.substr(begin + fence.size(), page.find("```", begin + 1) - begin - fence.size());
  commands = std::regex_replace(commands, std::regex("build/"), kBuild + "/");
  commands = std::regex_replace(commands, std::regex("(host\\$rank) "), "$1 " + before + " ");
  return std::regex_replace(commands, std::regex("127.0.0.1:29512"), free_address());
}

CommandResult run_shown(const std::string& environment, const std::string& before = "") {
  return run_command_line("cd '" MESHBED_SOURCE_DIR "' && exec 2>&1\nexport " + environment + "\n" + shown(before));
}

}  // namespace

TEST_CASE("two processes on the drop-in, each on a simulated GPU, as the page starts them: every bit is right") {
  const CommandResult run =
      run_shown("LARGEST_BYTES=4 NCCL_LIB='" + kBuild + "/nccl-lib'", meshbed_program() + " cuda run");
  CAPTURE(run.output);
  CHECK(lines_with(run.output, "all is right (ended in") == 2);
}

TEST_CASE("what NCCL calls is written down by a plugin before the plugin, and can be replayed") {
  const std::string folder = scratch_folder("one_gpu_recorded");
  const std::string calls = folder + "/calls";
  const CommandResult run =
      run_shown(fmt::format("LARGEST_BYTES=4 PART=sizes NCCL_LIB='{0}/nccl-lib' RECORDER_FILE='{1}' "
                            "RECORDER_PLUGIN='{0}/lib/libnccl-net-mesh.so'",
                            kBuild, calls),
                "NCCL_NET_PLUGIN='" + kBuild + "/lib/libnccl-net-recorder.so' " + meshbed_program() + " cuda run");
  CAPTURE(run.output);
  REQUIRE(lines_with(run.output, "all is right (ended in") == 2);
  const std::string scenario = folder + "/recorded.toml";
  std::ofstream(scenario) << "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nkind = \"nccl-calls\"\nrecording = "
                             "\"recorded.jsonl\"\n[expect]\nwrong = 0\n";
  const CommandResult replayed = run_command_line(
      fmt::format("cd '{0}' && cat calls.0 calls.1 >recorded.jsonl && {1} run recorded.toml --results '{0}' 2>&1",
                  folder, meshbed_program()));
  CHECK_MESSAGE(replayed.status == 0, replayed.output);
}

TEST_CASE("two processes on NVIDIA's NCCL and one GPU, as the page starts them, over the net plugin") {
  const char* const given = std::getenv("MESHBED_TEST_NCCL");
#ifdef MESHBED_NVIDIA_NCCL
  const std::string nccl = given != nullptr ? given : MESHBED_NVIDIA_NCCL;
#else
  const std::string nccl = given != nullptr ? given : "";
#endif
  if (nccl.empty()) {
    MESSAGE("skipped: no libnccl.so.2 of NVIDIA's (MESHBED_TEST_NCCL is its folder)");
    return;
  }
  const CommandResult run = run_shown("NCCL_DEBUG=INFO LARGEST_BYTES=300000 NCCL_LIB='" + nccl + "'");
  CAPTURE(run.output);
  for (const char* none : {"libcuda.so.1: cannot open shared object file", "cuInit(0) is error"}) {
    if (lines_with(run.output, none) == 0) continue;
    MESSAGE("skipped: NVIDIA's libnccl.so.2 is here, but no CUDA driver with a GPU: ", std::string(none));
    return;
  }
  CHECK(lines_with(run.output, "all is right (ended in") == 2);
  CHECK(lines_with(run.output, "Using network Mesh") > 0);
}

}  // namespace one_gpu_test
