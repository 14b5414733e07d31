// A program written only against nccl.h, on the drop-in: as ranks of a simulated cluster, and as processes of this
// machine.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <string>

#include "sim/cuda/world/world_cuda.h"
#include "sim/fault/inject.h"
#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "tests/dropin/lines.h"
#include "tests/support/command.h"
#include "tests/support/free_address.h"
#include "tests/support/run_world.h"

namespace program_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr int kRanks = 4;
const std::string kBuild = MESHBED_BINARY_DIR;

struct Story {
  std::string program;
  int ranks = kRanks;
  std::map<std::string, std::string> environment = {};
  Picoseconds rank_0_dies_ps = 0;  // 0: it does not
  // Not a ring: the engine, which does not know the cables, sends across it too, and a relay warns of a peer that
  // ended.
  bool on_a_switch = false;
  bool with_gpus = false;
  bool counts_copies = false;  // those of two_streams
};

/// Runs the program's main() as every rank of a ring or on a switch, one node each.
WorldResult run_in_sim(const Story& story) {
  models::Cluster cluster = story.on_a_switch ? switch_cluster(story.ranks) : ring_cluster(story.ranks);
  for (models::Node& node : cluster.nodes) node.gpus.assign(story.with_gpus ? 1 : 0, {"H100"});
  const std::string meeting = to_text(cluster.nodes[0].management->address.address) + ":29500";
  return run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {.libraries = {{"libnccl.so.2", kBuild + "/nccl-lib/libnccl.so.2"},
                                            {"libnccl-net-mesh.so", kBuild + "/lib/libnccl-net-mesh.so"}}});
    sim::install_verbs(world, kBuild + "/sim-lib/libibverbs.so.1", nullptr);
    static std::unique_ptr<sim::WorldCuda> gpus;  // in a process of its own, until its end
    if (story.with_gpus) {
      gpus = std::make_unique<sim::WorldCuda>(world, sim::cuda_files_in(kBuild + "/cuda-lib"));
    }
    for (int rank = 0; rank < story.ranks; ++rank) {
      auto& process = world.add_process(rank, rank, fmt::format("rank{}", rank));
      process.environment["RANK"] = std::to_string(rank);
      process.environment["WORLD_SIZE"] = std::to_string(story.ranks);
      process.environment["NCCL_COMM_ID"] = meeting;
      for (const auto& [name, value] : story.environment) process.environment[name] = value;
      world.spawn(process, "main", [story] {
        const std::string file = kBuild + "/lib/libnccl-" + story.program + ".so";
        void* program = sim::load_for(*sim::World::current_process(), file);
        const auto run = reinterpret_cast<int (*)()>(sim::symbol_of(program, "main"));
        CHECK(run() == 0);
        if (!story.counts_copies) return;
        // The program's own 10 copies, and 4 a launch; the engine's: in and out of three all-reduces, an all-gather and
        // a group, of an all-reduce and an all-gather a launch, of the graph that has outlived its communicator, and
        // of the broadcast out at every rank and in at its root.
        const sim::CudaCounts counts = sim::cuda_counts_of(*sim::World::current_process());
        CHECK(counts.copies == 10 + 3 * 4 + 5 * 2 + 3 * 4 + 2 + 1 + (sim::World::current_process()->rank == 1 ? 1 : 0));
        CHECK(counts.launches == 0);
      });
    }
    const auto dies = [](void* self, std::uint64_t) { sim::kill_node(*static_cast<sim::World*>(self), 0); };
    if (story.rank_0_dies_ps > 0) world.at(story.rank_0_dies_ps, 1, dies, &world, 0);
  });
}

}  // namespace

TEST_CASE("four simulated ranks of a program that knows only nccl.h: every number is right") {
  const WorldResult run = run_in_sim({.program = "four_ranks"});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "all is right") == kRanks);
  CHECK(lines_with(run.output, "warning") == 0);
}

TEST_CASE("nodes that have GPUs, and a program that never asks for CUDA: it has none, and its calls need no context") {
  const WorldResult run = run_in_sim({.program = "four_ranks", .with_gpus = true});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "all is right") == kRanks);
}

TEST_CASE(
    "GPU memory in two streams and in a graph of both, as a program of nccl.h and CUDA has it, waited for there "
    "alone") {
  const WorldResult run = run_in_sim({.program = "two_streams", .with_gpus = true, .counts_copies = true});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "all is right") == kRanks);
  CHECK(lines_with(run.output, "of a communicator which was destroyed: it does nothing") == kRanks);
}

TEST_CASE("every collective, type and operation on GPU memory, as the program has it that runs on the real NCCL too") {
  const WorldResult run = run_in_sim(
      {.program = "every_collective", .environment = {{"LARGEST_BYTES", "5000"}, {"QUIET", "1"}}, .with_gpus = true});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "all is right (ended in") == kRanks);
}

TEST_CASE("the same where the GPUs reduce, in streams and in the graph") {
  const WorldResult run =
      run_in_sim({.program = "two_streams", .environment = {{"MESHBED_GPU_SUMS", "1"}}, .with_gpus = true});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "all is right") == kRanks);
}

TEST_CASE("calls in more streams than the GPU has queues, copies before and behind them: none waits for another") {
  for (const int ranks : {2, kRanks}) {
    for (const std::string queues : {"8", "1"}) {
      CAPTURE(ranks);
      CAPTURE(queues);
      const WorldResult run = run_in_sim({.program = "many_streams",
                                          .ranks = ranks,
                                          .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", queues}},
                                          .with_gpus = true});
      CAPTURE(run.output);
      CAPTURE(run.waiters);
      CHECK(run.outcome == sim::OutcomeKind::kFinished);
      CHECK(lines_with(run.output, "all is right") == ranks);
    }
  }
}

TEST_CASE("ranks that come minutes apart, to init, to a pair's first message and to destroy, with one id for all") {
  for (const std::string story : {"late", "rank 0 last"}) {
    CAPTURE(story);
    const WorldResult run = run_in_sim({.program = "ranks_apart",
                                        .environment = {{"STORY", story}, {"NCCL_SOCKET_RETRY_CNT", "90"}},
                                        .on_a_switch = true});
    CAPTURE(run.output);
    CHECK(run.outcome == sim::OutcomeKind::kFinished);
    CHECK(lines_with(run.output, "all is right") == kRanks);
    CHECK(lines_with(run.output, "warning") == 0);
  }
}

TEST_CASE("rank 0's machine loses its power: a wait without a limit still gets the error") {
  const WorldResult run = run_in_sim(
      {.program = "ranks_apart", .environment = {{"STORY", "orphans"}}, .rank_0_dies_ps = 50 * kPicosecondsPerSecond});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "the receive ends: remote process exited") == kRanks - 1);
}

TEST_CASE("a rank that only asks for an asynchronous error gets another rank's abort") {
  const WorldResult run = run_in_sim({.program = "ranks_apart", .environment = {{"STORY", "abort"}}});
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, ": remote process exited") == kRanks - 1);
}

TEST_CASE("four processes of it over TCP, as docs/nccl-dropin.md starts them: every number is right") {
  std::ifstream file(MESHBED_SOURCE_DIR "/docs/nccl-dropin.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::string fence = "```shell\n";
  const std::size_t begin = page.find(fence);
  REQUIRE(begin != std::string::npos);
  const std::string shown = page.substr(begin + fence.size(), page.find("```", begin + 1) - begin - fence.size());
  std::string commands = std::regex_replace(shown, std::regex("build/"), kBuild + "/");
  commands = std::regex_replace(commands, std::regex("127.0.0.1:29511"), free_address());
  const CommandResult run = run_command_line("cd '" MESHBED_SOURCE_DIR "' && exec 2>&1\n" + commands);
  CAPTURE(run.output);
  if (lines_with(run.output, "over TCP, by no interface") > 0) {
    MESSAGE("skipped: the plugin sends nothing over the loopback, and this machine has no other interface");
    return;
  }
  CHECK(lines_with(run.output, "all is right") == kRanks);
}

}  // namespace program_test
