// A program written only against nccl.h, on the drop-in: as ranks of a simulated cluster, and as processes of this
// machine.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "tests/support/command.h"
#include "tests/support/free_address.h"
#include "tests/support/run_world.h"

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr int kRanks = 4;
const std::string kBuild = MESHBED_BINARY_DIR;

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Runs the program's main() as every rank of a ring, one node each.
WorldResult run_in_sim() {
  const models::Cluster cluster = ring_cluster(kRanks);
  const std::string meeting = models::to_string(cluster.nodes[0].management->address.address) + ":29500";
  return run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {.libraries = {{"libnccl.so.2", kBuild + "/nccl-lib/libnccl.so.2"},
                                            {"libnccl-net-mesh.so", kBuild + "/lib/libnccl-net-mesh.so"}}});
    sim::install_verbs(world, kBuild + "/sim-lib/libibverbs.so.1", nullptr);
    for (int rank = 0; rank < kRanks; ++rank) {
      auto& process = world.add_process(rank, rank, fmt::format("rank{}", rank));
      process.environment["RANK"] = std::to_string(rank);
      process.environment["WORLD_SIZE"] = std::to_string(kRanks);
      process.environment["NCCL_COMM_ID"] = meeting;
      world.spawn(process, "main", [] {
        void* program = sim::load_for(*sim::World::current_process(), kBuild + "/lib/libnccl-program.so");
        const auto run = reinterpret_cast<int (*)()>(sim::symbol_of(program, "main"));
        CHECK(run() == 0);
      });
    }
  });
}

}  // namespace

TEST_CASE("four simulated ranks of a program that knows only nccl.h: every number is right") {
  const WorldResult run = run_in_sim();
  CAPTURE(run.output);
  CHECK(run.outcome == sim::OutcomeKind::kFinished);
  CHECK(lines_with(run.output, "all is right") == kRanks);
  CHECK(lines_with(run.output, "warning") == 0);
}

TEST_CASE("four processes of it over TCP, as the README starts them: every number is right") {
  std::ifstream file(MESHBED_SOURCE_DIR "/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), {});
  const std::string fence = "```shell\n";
  const std::size_t begin = readme.find(fence);
  REQUIRE(begin != std::string::npos);
  const std::string shown = readme.substr(begin + fence.size(), readme.find("```", begin + 1) - begin - fence.size());
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
