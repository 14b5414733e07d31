// Programs whose ranks do not call the same operation, through NCCL's calls: as ranks of a simulated cluster, and as
// processes of this machine, each rank learns what every one called.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"
#include "tests/support/free_address.h"

namespace mismatch_test {

using namespace meshbed::test;

namespace {

/// Rank 2 differs as argv[1] names it; each rank prints how its call failed.
constexpr const char* kSource = R"(
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <string>
#include <vector>
int main(int, char** argv) {
  const std::string how = argv[1];
  const int rank = std::atoi(std::getenv("RANK"));
  const std::size_t count = 1 << 18;
  std::vector<float> from(count), to(3 * count);
  ncclUniqueId id;
  ncclComm_t comm;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return 3;
  const bool differs = rank == 2;
  if (differs && how == "leaves") return ncclCommDestroy(comm) != ncclSuccess;
  ncclResult_t result = ncclSuccess;
  if (how == "root") {
    result = ncclBroadcast(from.data(), to.data(), count, ncclFloat, differs ? 1 : 0, comm, nullptr);
  } else if (differs && how == "collective") {
    result = ncclBroadcast(from.data(), to.data(), count, ncclFloat, 0, comm, nullptr);
  } else {
    if (!differs && how == "skips") {
      result = ncclBroadcast(from.data(), to.data(), count, ncclFloat, 0, comm, nullptr);
    }
    if (result == ncclSuccess) {
      result = ncclAllReduce(from.data(), to.data(), differs && how == "count" ? count / 2 : count,
                             differs && how == "type" ? ncclInt32 : ncclFloat32, ncclSum, comm, nullptr);
    }
  }
  if (result == ncclSuccess) return 0;
  std::printf("failed: %s\n", ncclGetLastError(comm));
  std::fflush(stdout);
  return 4;
}
)";

const std::string kDiffer = "the ranks do not call the same operation: ";
const std::string kReduce = "all_reduce 1, 1 MiB float sum";

struct Story {
  const char* how;
  std::string words;
  int ranks;  // that fail, from the last one down
};

const Story kStories[] = {
    {"collective", kDiffer + "rank 2: broadcast 1, 1 MiB float, root 0; ranks 0, 1: " + kReduce, 3},
    {"count", kDiffer + "rank 2: all_reduce 1, 512 KiB float sum; ranks 0, 1: " + kReduce, 3},
    {"type", kDiffer + "rank 2: all_reduce 1, 1 MiB int32 sum; ranks 0, 1: " + kReduce, 3},
    {"skips", kDiffer + "rank 2: " + kReduce + "; ranks 0, 1: broadcast 1, 1 MiB float, root 0", 3},
};

}  // namespace

TEST_CASE("ranks of a simulated cluster that call different operations, or leave early, are named with their calls") {
  const Programs programs("mismatch-sim");
  programs.compile("c++", "differ", kSource);
  const auto run = [&](const std::string& how) {
    CommandResult result = programs.run("differ", 3, fmt::format("arguments = [\"{}\"]", how));
    INFO(how);
    CAPTURE(result.output);
    CHECK(result.status == 1);
    CHECK(lines_with(result.output, "pthread_cond_wait") == 0);
    return result.output;
  };
  for (const Story& story : kStories) {
    const std::string output = run(story.how);
    INFO(story.how);
    CAPTURE(output);
    CHECK(lines_with(output, ": failed: ") == 3);
    CHECK(lines_with(output, story.words) >= 3);
  }
  // The root has sent, and waits for nothing.
  const std::string roots = run("root");
  CAPTURE(roots);
  CHECK(lines_with(roots, "rank 1: broadcast 1, 1 MiB float, root 0; rank 2: broadcast 1, 1 MiB float, root 1") >= 2);
  const std::string left = run("leaves");
  CAPTURE(left);
  CHECK(lines_with(left, "rank 2: has left; ranks 0, 1: " + kReduce) >= 1);
  CHECK(lines_with(left, ": failed: ncclAllReduce: all_reduce 1: ") == 2);
}

TEST_CASE("processes of one machine that call different operations, or leave early, are named with their calls") {
  const Programs programs("mismatch-processes");
  programs.compile("c++", "differ", kSource);
  const auto run = [&](const std::string& how) {
    return run_command_line(
        fmt::format("cd '{0}' && exec 2>&1\n"
                    "export LD_LIBRARY_PATH='{1}/nccl-lib:{1}/lib' NCCL_COMM_ID={2} NCCL_MESH_DISABLE_RDMA=1 "
                    "NCCL_SOCKET_IFNAME=lo\n"
                    "for rank in 0 1 2; do RANK=$rank timeout 100 ./differ {3} & done; wait",
                    programs.folder(), kBuild, free_address(), how));
  };
  for (const Story& story : kStories) {
    const CommandResult result = run(story.how);
    INFO(story.how);
    CAPTURE(result.output);
    if (lines_with(result.output, "over TCP, by no interface") > 0) {
      MESSAGE("skipped: the plugin sends nothing over the loopback, and this machine has no other interface");
      return;
    }
    CHECK(lines_with(result.output, "failed: ") == 3);
    CHECK(lines_with(result.output, story.words) >= 3);
  }
  const CommandResult left = run("leaves");
  CAPTURE(left.output);
  CHECK(lines_with(left.output, "failed: ncclAllReduce: all_reduce 1: ") == 2);
  CHECK(lines_with(left.output, " rank 2") >= 2);
  CHECK(lines_with(left.output, "it has left") + lines_with(left.output, "rank 2: has left") >= 2);
}

}  // namespace mismatch_test
