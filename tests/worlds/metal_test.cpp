// `--world metal` as an owner of real machines types it: by hand in two shells, and under Open MPI's mpirun. The
// machines are two virtual ones, whose run is joined with the one that `--world emu` starts in such machines.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "testbed/world/emulate.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace metal_test {

using namespace meshbed;
using namespace meshbed::test;
using nlohmann::json;

namespace {

constexpr const char* kWorkload = "--set workload.bytes=1M";

/// The command line that is typed on each machine.
std::string typed(const std::string& results) {
  return fmt::format("{} run --world metal {} {} --results '{}'", meshbed_program(), scenario_file("pair"), kWorkload,
                     results);
}

testbed::Scenario pair_scenario() {
  return testbed::read_scenario(std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml", {});
}

/// Where a node is reached from the others.
std::string management_address(std::size_t node) {
  return to_text(pair_scenario().cluster.nodes.at(node).management->address.address);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The folder of a run of the pair in the emulated world; made once.
const std::string& emulated_run() {
  static const std::string results = [] {
    const std::string folder = scratch_folder("metal_emu");
    const CommandResult run = run_command_line(fmt::format(
        "{} run --world emu {} {} --results '{}' 2>&1", meshbed_program(), scenario_file("pair"), kWorkload, folder));
    return run.status == 0 ? folder + "/pair/emu" : "failed: " + run.output;
  }();
  return results;
}

/// Boots the pair's two machines with a script each, and joins what rank 0 leaves in node0's folder with
/// emulated_run().
void runs_alike_on_metal(const std::string& node0, const std::string& node1) {
  emu::EmuCluster cluster = testbed::emulated_cluster(pair_scenario(), {});
  cluster.nodes.at(0).commands = {{"/bin/sh", "-ec", node0}};
  cluster.nodes.at(1).commands = {{"/bin/sh", "-ec", node1}};
  emu::MicroVms machines(cluster, {.image = emu::make_boot_image(emu::cache_folder(), [](const std::string&) {}),
                                   .accelerator = emu::probe_accelerator(),
                                   .work_dir = scratch_folder("metal_machines"),
                                   .keep_folder = false,
                                   .time_limit_s = 300,
                                   .on_progress = {}});
  machines.start();
  const emu::ClusterOutcome outcome = machines.wait();
  std::string said;
  for (const std::string& trouble : outcome.troubles) said += trouble + "\n";
  for (const emu::NodeOutcome& node : outcome.nodes) {
    const emu::CommandOutcome& command = node.commands.at(0);
    said += node.name + ": " + text_of(command.stdout_path) + text_of(command.stderr_path) + "\n";
  }
  REQUIRE_MESSAGE(outcome.succeeded(), said);
  MESSAGE(said);
  const std::string metal = outcome.nodes.at(0).folder + "/results/pair/metal";
  const json ours = json::parse(text_of(metal + "/summary.json"));
  REQUIRE_MESSAGE(std::filesystem::exists(emulated_run()), emulated_run());
  const json theirs = json::parse(text_of(emulated_run() + "/summary.json"));
  CHECK(ours.at("world") == "metal");
  CHECK(ours.at("wrong") == 0);
  // How many clear-to-sends went together is the moment's: compare counts them one by one.
  for (const char* key : {"plugin_sha256", "engine_sha256", "digest", "data"}) {
    CHECK_MESSAGE(ours.at(key) == theirs.at(key), key);
  }
  const CommandResult joined =
      run_command_line(fmt::format("{} compare '{}' '{}' 2>&1", meshbed_program(), emulated_run(), metal));
  CHECK_MESSAGE(joined.status == 0, joined.output);
  MESSAGE(joined.output);
}

}  // namespace

TEST_CASE("two ranks are started by hand, each on its machine, and it is the emulated run message by message") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const auto by_hand = [](int rank) {
    return fmt::format("RANK={} WORLD_SIZE=2 MASTER_ADDR={} {}", rank, management_address(0), typed("results"));
  };
  runs_alike_on_metal(by_hand(0), by_hand(1));
}

TEST_CASE("Open MPI's mpirun starts the two ranks over ssh, and it is the emulated run message by message") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  for (const char* program : {"mpirun", "dropbear", "dbclient", "dropbearkey"}) {
    if (emu::find_program(program).empty()) {
      MESSAGE("skipped: no ", program, "; the packages are openmpi-bin and dropbear-bin");
      return;
    }
  }
  // A small ssh server with keys that are thrown away with this folder; the guests see it at its place.
  const std::string keys = scratch_folder("metal_keys");
  for (const char* key : {"host", "user"}) {
    const CommandResult made = run_command_line(
        fmt::format("dropbearkey -t ed25519 -f '{0}/{1}' 2>&1 | grep ^ssh-ed25519 >'{0}/{1}.pub'", keys, key));
    REQUIRE(made.status == 0);
  }
  const std::string ssh = fmt::format("dbclient -y -y -i {}/user", keys);
  const std::string node0 = fmt::format(
      "until {0} node1 true 2>/dev/null; do :; done\n"
      "mpirun --allow-run-as-root -np 2 --host node0,node1 --mca plm_rsh_agent '{0}' --mca oob_tcp_if_include mgmt0 "
      "-x MASTER_ADDR={2} {1}\n"
      "{0} node1 'echo over >/run/over'\n",
      ssh, typed("results"), management_address(0));
  // mpirun starts the ranks where it was started, and that folder is node0's own.
  const std::string node1 = fmt::format(
      "home=~root\nmount -t tmpfs home $home\nmkdir -m 700 $home/.ssh\ncp {0}/user.pub $home/.ssh/authorized_keys\n"
      "chmod 700 $home\nchmod 600 $home/.ssh/authorized_keys\nmkfifo /run/over\n"
      "dropbear -F -E -s -r {0}/host -p {1}:22 &\n"
      "read over </run/over\nkill $!\n",
      keys, management_address(1));
  runs_alike_on_metal(node0, node1);
}

}  // namespace metal_test
