// `nccl check`: libraries as a user may have built them, made here of a C file and fat binaries in their section; and
// what is no NCCL, or broken.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/nccl/compare.h"
#include "cli/nccl/library.h"
#include "plugin/base/prng.h"
#include "testbed/base/files.h"
#include "tests/support/command.h"
#include "tests/support/fat_binary.h"

namespace nccl_library_test {

using namespace meshbed;
using namespace meshbed::testbed;
using namespace meshbed::test;

namespace {

struct Recipe {
  std::vector<DeviceCode> code{};
  std::string runtime = "libcudart.so.13";  // empty: none is needed
  bool cxx_runtime = false;
  std::string source = "const char* version = \"NCCL version 2.30.7+cuda13.0\";";
  std::string section = ".nv_fatbin";
};

/// The path of a library made by it.
std::string made(const Recipe& recipe) {
  const std::string folder = scratch_folder("nccl_library");
  std::ofstream(folder + "/nccl.c") << "int ncclCommInitRank(void) { return 0; }\n"
                                    << recipe.source << "\n"
                                    << (recipe.code.empty() ? "" : fat_binary_source(recipe.code, recipe.section));
  std::string line = fmt::format("cd '{}' && ", folder);
  if (!recipe.runtime.empty()) {
    line += fmt::format("cc -shared -fPIC -Wl,-soname,{0} -o {0} -x c /dev/null && ", recipe.runtime);
  }
  line += fmt::format("cc -shared -fPIC -Wl,--no-as-needed -o libnccl.so nccl.c {} {} 2>&1",
                      recipe.runtime.empty() ? "" : "./" + recipe.runtime, recipe.cxx_runtime ? "-lstdc++" : "");
  const CommandResult built = run_command_line(line);
  REQUIRE_MESSAGE(built.status == 0, built.output);
  return folder + "/libnccl.so";
}

std::string obstacle_on(const NcclLibrary& library, const std::string& gpu) {
  for (const NcclOnGpu& one : nccl_on_gpus(library)) {
    if (one.gpu == gpu) return one.obstacle;
  }
  FAIL("no such GPU model: ", gpu);
  return "";
}

std::string refusal(const std::string& path) {
  try {
    inspect_nccl(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a library with PTX for compute_90 and the shared runtime runs on H100 and H200, and says what others need") {
  const NcclLibrary library = inspect_nccl(made({.code = {{true, 90}, {false, 90}, {true, 90}}, .cxx_runtime = true}));
  CHECK(library.version == "2.30.7");
  CHECK(library.cuda_version == "13.0");
  CHECK(library.ptx == std::set<std::uint32_t>{90});
  CHECK(library.machine_code == std::set<std::uint32_t>{90});
  CHECK(library.ptx_texts == 2);
  CHECK(library.ptx_bytes == 16);
  CHECK(library.cuda_runtime == "libcudart.so.13");
  CHECK(library.shared_cxx_runtime);
  CHECK(library.refused.empty());
  CHECK(obstacles_of(library).empty());
  CHECK(obstacle_on(library, "H100").empty());
  CHECK(obstacle_on(library, "H200").empty());
  CHECK(obstacle_on(library, "A100") == "A100 (sm_80) needs PTX for compute_80; this has compute_90");
  CHECK(
      has(obstacle_on(library, "GB10"), "GB10 (sm_121) needs PTX for compute_120; this has compute_90, whose kernels"));
}

TEST_CASE("PTX of parts that were linked counts, and of several architectures each GPU gets its own") {
  const NcclLibrary library =
      inspect_nccl(made({.code = {{true, 80}, {true, 90}, {true, 120}}, .section = "__nv_relfatbin"}));
  CHECK(library.ptx == std::set<std::uint32_t>{80, 90, 120});
  CHECK_FALSE(library.shared_cxx_runtime);
  for (const NcclOnGpu& gpu : nccl_on_gpus(library)) CHECK_MESSAGE(gpu.obstacle.empty(), gpu.obstacle);
}

TEST_CASE("a part of CUDA's own with another architecture is no kernel of NCCL's") {
  // As CUDA 13.0's libcudadevrt, which NCCL's Makefile links in with PTX for compute_121.
  const NcclLibrary library =
      inspect_nccl(made({.code = {{true, 90}, {true, 90}, {true, 90}, {true, 121}, {false, 121}}}));
  CHECK(library.ptx == std::set<std::uint32_t>{90});
  CHECK(library.ptx_texts == 4);
  CHECK(obstacle_on(library, "H100").empty());
  CHECK(has(obstacle_on(library, "GB10"), "needs PTX for compute_120; this has compute_90"));
}

TEST_CASE("what keeps a library from running at all is said with what it needs") {
  const auto first = [](const Recipe& recipe) {
    const auto all = obstacles_of(inspect_nccl(made(recipe)));
    return all.empty() ? std::string() : all.front();
  };
  CHECK(has(first({.code = {{true, 90}}, .runtime = ""}), "linked into it statically"));
  CHECK(first({.code = {{true, 90}}, .runtime = "libcudart.so.12"}) ==
        "it needs libcudart.so.12; the simulated runtime is libcudart.so.13");
  CHECK(first({.code = {{false, 80}, {false, 90}}}) ==
        "it has no PTX, which is what the simulated GPUs execute: only machine code for sm_80, sm_90");
}

TEST_CASE("functions that the library knows by name and that are refused here are listed") {
  const NcclLibrary library = inspect_nccl(made(
      {.code = {{true, 90}},
       .source = "const char* version = \"NCCL version 2.18.1+cuda12.1\";\n"
                 "const char* names[] = {\"cuMulticastCreate\", \"cuMemCreate\", \"nvmlDeviceGetTemperature\"};"}));
  CHECK(library.refused == std::vector<std::string>{"cuMulticastCreate", "nvmlDeviceGetTemperature"});
}

TEST_CASE("what is no NCCL is refused with the reason") {
  const std::string folder = scratch_folder("nccl_library_no");
  std::ofstream(folder + "/text") << "not a library";
  CHECK(has(refusal(folder + "/text"), "not a 64-bit ELF file"));
  CHECK(has(refusal(folder + "/missing"), "missing"));
  CHECK(has(refusal("/proc/self/exe"), "it does not export ncclCommInitRank"));
  CHECK(has(refusal(made({.code = {{true, 90}}, .source = ""})), "is not NVIDIA's NCCL"));
}

TEST_CASE("a library with any of its bytes changed, or cut anywhere, is read or refused, and nothing else happens") {
  const std::string whole = read_text_file(made({.code = {{true, 90}, {false, 80}}}));
  const std::string path = scratch_folder("nccl_library_mutants") + "/libnccl.so";
  Prng prng(47);
  int refused = 0;
  for (int count = 0; count < 400; ++count) {
    std::string bytes = whole;
    if (prng.below(4) == 0) bytes.resize(prng.below(bytes.size()));
    for (std::uint64_t change = prng.below(4); change > 0 && !bytes.empty(); --change) {
      // Mostly in the headers, which stand at both ends.
      const std::size_t reach = std::min<std::size_t>(bytes.size(), 2048);
      const std::size_t at = prng.below(reach);
      bytes[prng.below(2) == 0 ? at : bytes.size() - 1 - at] = static_cast<char>(prng.below(256));
    }
    std::ofstream(path, std::ios::trunc) << bytes;
    const std::string reason = refusal(path);
    if (!reason.empty()) CHECK(has(reason, path));
    refused += reason.empty() ? 0 : 1;
  }
  CHECK(refused > 20);
  CHECK(refused < 400);
}

TEST_CASE("a sweep's times are those of the slowest rank, and the drop-in is slower where its own are longer") {
  const std::vector<NcclPoint> points{{models::Collective::kAllReduce, 4096}, {models::Collective::kBroadcast, 8}};
  const auto line = [](int rank, const char* operation, int bytes, int ns) {
    return fmt::format("rank{}: {{\"operation\": \"{}\", \"bytes\": {}, \"ns\": {}, \"wrong\": 0}}\n", rank, operation,
                       bytes, ns);
  };
  const std::string output = "a report\n" + line(0, "all_reduce", 4096, 9000) + line(1, "all_reduce", 4096, 9500) +
                             line(0, "broadcast", 8, 4000) + line(1, "broadcast", 8, 3000);
  const NcclTimes times = read_sweep(output, 0, points, 2);
  CHECK(times.failure.empty());
  REQUIRE(times.time_us == std::vector<std::optional<double>>{9.5, 4.0});
  CHECK(has(read_sweep(output, 0, points, 3).failure, "2 of 3 ranks printed a time of all_reduce, 4096 bytes"));
  CHECK(has(read_sweep("a reason\n", 1, points, 2).failure, "a reason"));
  const ComparedPoint slower{.point = points[0], .nccl_us = 9.5, .dropin_us = 19.0};
  CHECK(slower.dropin_is_slower());
  CHECK(slower.ratio() == 2.0);
  CHECK_FALSE(ComparedPoint{.point = points[0], .nccl_us = 9.5, .dropin_us = 9.5}.dropin_is_slower());
  CHECK_FALSE(ComparedPoint{.point = points[0], .nccl_us = 9.5, .dropin_us = 9.0}.dropin_is_slower());
}

TEST_CASE("sizes that NCCL 2.30.7 takes by architecture") {
  // src/include/device.h of v2.30.7-1, lines 385-387, 535-538 and 552-561.
  CHECK(nccl_sizes(75) == NcclSizes{.unroll = 4, .nvls = false, .batch_bytes = 1024});
  CHECK(nccl_sizes(80) == NcclSizes{.unroll = 8, .nvls = false, .batch_bytes = 8192});
  CHECK(nccl_sizes(89) == nccl_sizes(80));
  CHECK(nccl_sizes(90) == NcclSizes{.unroll = 8, .nvls = true, .batch_bytes = 16384});
  CHECK(nccl_sizes(103) == nccl_sizes(90));
  CHECK(nccl_sizes(121) == NcclSizes{.unroll = 6, .nvls = true, .batch_bytes = 16384});
}

}  // namespace nccl_library_test
