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
  programs.build("cc", "differ", kPrograms + "differ.c");
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
  programs.build("cc", "differ", kPrograms + "differ.c");
  // All at once: each waits for a long time before it asks what the others have called.
  std::string line = fmt::format(
      "cd '{0}' && exec 2>&1\n"
      "export LD_LIBRARY_PATH='{1}/nccl-lib:{1}/lib' NCCL_MESH_DISABLE_RDMA=1 NCCL_SOCKET_IFNAME=lo\n",
      programs.folder(), kBuild);
  const auto start = [&](const std::string& how) {
    line +=
        fmt::format("for rank in 0 1 2; do RANK=$rank NCCL_COMM_ID={} timeout 100 ./differ {} >{}.$rank 2>&1 & done\n",
                    free_address(), how, how);
  };
  for (const Story& story : kStories) start(story.how);
  start("leaves");
  const CommandResult all = run_command_line(line + "wait");
  REQUIRE_MESSAGE(all.status == 0, all.output);
  const auto output_of = [&](const std::string& how) {
    return run_command_line(fmt::format("cat '{}/{}'.[012]", programs.folder(), how)).output;
  };
  for (const Story& story : kStories) {
    const std::string output = output_of(story.how);
    INFO(story.how);
    CAPTURE(output);
    if (lines_with(output, "over TCP, by no interface") > 0) {
      MESSAGE("skipped: the plugin sends nothing over the loopback, and this machine has no other interface");
      return;
    }
    CHECK(lines_with(output, "failed: ") == 3);
    CHECK(lines_with(output, story.words) >= 3);
  }
  const std::string left = output_of("leaves");
  CAPTURE(left);
  CHECK(lines_with(left, "failed: ncclAllReduce: all_reduce 1: ") == 2);
  CHECK(lines_with(left, "all_reduce 1: rank 2 has left: ") + lines_with(left, "rank 2: has left") >= 2);
}

}  // namespace mismatch_test
