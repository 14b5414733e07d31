// nccl compare: a sweep on the user's NCCL and on the drop-in, beside the bound. NVIDIA's is a stand-in here: a library
// with what `nccl check` looks for, which hands its calls on to a copy of the drop-in.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"
#include "tests/support/fat_binary.h"

namespace nccl_compare_test {

using namespace meshbed::test;

namespace {

class StandIn {
 public:
  /// `before`: statements in ncclBroadcast and ncclAllReduce, before the call is handed on.
  explicit StandIn(const std::string& name, const std::string& before = "") : folder_(scratch_folder(name)) {
    std::filesystem::copy_file(kBuild + "/nccl-lib/libnccl.so.2", folder_ + "/real.so");
    std::ofstream(folder_ + "/nccl.c") << fmt::format(R"(
#include <dlfcn.h>
#include <nccl.h>
#include <time.h>
extern const char version_text[];
const char version_text[] = "NCCL version 2.30.7+cuda13.0";
static void* real(const char* name) {{
  return dlsym(dlopen("{}/real.so", RTLD_NOW | RTLD_LOCAL), name);
}}
#define HAND_ON(name) return ((__typeof__(&name))real(#name))
ncclResult_t ncclGetVersion(int* version) {{ *version = 23007; return ncclSuccess; }}
const char* ncclGetErrorString(ncclResult_t result) {{ HAND_ON(ncclGetErrorString)(result); }}
const char* ncclGetLastError(ncclComm_t comm) {{ HAND_ON(ncclGetLastError)(comm); }}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {{ HAND_ON(ncclGetUniqueId)(id); }}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {{
  HAND_ON(ncclCommInitRank)(comm, ranks, id, rank);
}}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {{ HAND_ON(ncclCommDestroy)(comm); }}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {{
  {}
  HAND_ON(ncclAllReduce)(from, to, count, type, op, comm, stream);
}}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {{
  HAND_ON(ncclAllGather)(from, to, count, type, comm, stream);
}}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {{
  HAND_ON(ncclReduceScatter)(from, to, count, type, op, comm, stream);
}}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {{
  HAND_ON(ncclBroadcast)(from, to, count, type, root, comm, stream);
}}
)",
                                                      folder_, before)
                                       << fat_binary_source({{true, 90}});
    const CommandResult made = run_command_line(
        fmt::format("cd '{0}' && cc -shared -fPIC -I'{1}/plugin/dropin' -Wl,-soname,libnccl.so.2 -Wl,--no-as-needed "
                    "-o libnccl.so.2 nccl.c -L'{2}/cuda-lib' -l:libcudart.so.13 -ldl 2>&1",
                    folder_, MESHBED_SOURCE_DIR, kBuild));
    REQUIRE_MESSAGE(made.status == 0, made.output);
  }

  CommandResult compare(const std::string& options) const {
    return run_command_line(
        fmt::format("cd '{}' && '{}/bin/meshbed' nccl compare --nccl libnccl.so.2 --scenario '{}/scenarios/pair.toml' "
                    "--gpu H100 {} 2>&1",
                    folder_, kBuild, MESHBED_SOURCE_DIR, options));
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace

TEST_CASE("nccl compare: each operation and size on both libraries, beside the bound") {
  const StandIn same("nccl-compare");
  const CommandResult run = same.compare("-b 64K -e 1M --json");
  REQUIRE_MESSAGE(run.status == 0, run.output);
  const nlohmann::json found = nlohmann::json::parse(run.output);
  CHECK(found.at("nccl").at("version") == "2.30.7");
  CHECK(found.at("ranks") == 2);
  const nlohmann::json& rows = found.at("rows");
  REQUIRE(rows.size() == 8);
  std::string order;
  for (const nlohmann::json& row : rows) {
    order += fmt::format("{} {}\n", row.at("operation").get<std::string>(), row.at("bytes").get<int>());
    CAPTURE(row.dump());
    // The same engine on the same cabling.
    CHECK(row.at("nccl_us") == row.at("dropin_us"));
    CHECK(row.at("ratio") == 1.0);
    CHECK(row.at("dropin_is_slower") == false);
    CHECK(row.at("bound_us").get<double>() > 0);
    CHECK(row.at("dropin_chose").at("algorithm").get<std::string>().size() >=
          4);  // of the engine's: "mesh", "ring" ...
    CHECK(row.at("dropin_chose").at("channels") >= 1);
    CHECK(row.at("nccl_chose") == row.at("dropin_chose"));
    CHECK(row.at("bound_us").get<double>() < row.at("dropin_us").get<double>());
  }
  CHECK(order ==
        "all_reduce 65536\nall_reduce 1048576\nall_gather 65536\nall_gather 1048576\nreduce_scatter 65536\n"
        "reduce_scatter 1048576\nbroadcast 65536\nbroadcast 1048576\n");
  for (const char* library : {"nccl", "drop-in"}) {
    CHECK(std::filesystem::exists(
        fmt::format("{}/results/nccl-compare/{}/pair/sim/summary.json", same.folder(), library)));
  }
}

TEST_CASE("nccl compare: a library that is late is the slower one, and one that does nothing is refused") {
  const StandIn late("nccl-compare-late", "const struct timespec ms = {0, 1000000}; nanosleep(&ms, 0);");
  const CommandResult run = late.compare("-c all_reduce -b 8 -e 8");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "all_reduce                8     10") == 1);  // microseconds, the delay with them
  CHECK(lines_with(run.output, "  slower  ") == 0);
  CHECK(lines_with(run.output, "the drop-in is slower in 0 of 1") == 1);
  // A rank that does nothing is fast, and wrong where the numbers matter.
  const StandIn wrong("nccl-compare-wrong", "return ncclSuccess;");
  const CommandResult broken = wrong.compare("-c all_reduce,broadcast -b 4K -e 4K");
  CAPTURE(broken.output);
  CHECK(broken.status == 1);
  CHECK(lines_with(broken.output, "meshbed: nccl compare: the run on libnccl.so.2 ended with status 1:") == 1);
  CHECK(lines_with(broken.output, "all_reduce of 4096 bytes: element 0 is 0 instead of 3") == 2);
  CHECK(lines_with(broken.output, "the drop-in is slower") == 0);
}

TEST_CASE("nccl compare refuses what it cannot run, before anything starts") {
  const StandIn same("nccl-compare-refuses");
  const auto refused = [&](const std::string& options, const std::string& words) {
    const CommandResult result = same.compare(options);
    CAPTURE(result.output);
    CHECK(result.status == 2);
    CHECK(lines_with(result.output, words) == 1);
    CHECK_FALSE(std::filesystem::exists(same.folder() + "/results"));
  };
  refused("-c all_reduce,alltoall", "nccl compare: -c alltoall: there is no such operation");
  refused("-b 1M -e 1K", "-b is larger than -e");
  refused("-f 1", "nccl compare: -f 1");
  refused("-c all_gather -b 4 -e 4", "nccl compare: all_gather of 4 bytes: not an element for each rank");
  refused("--gpu GB10", "--gpu");
  const CommandResult none = run_command_line("'" + kBuild + "/bin/meshbed' nccl compare --nccl x 2>&1");
  CHECK(none.status == 2);
  CHECK(lines_with(none.output, "nccl compare: --scenario FILE: on which cluster?") == 1);
}

}  // namespace nccl_compare_test
