// The namespace backend, in the kernel of a virtual machine: there we are root, it has soft-RoCE, and nothing of this
// host is at stake.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "testbed/scenario/scenario.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace namespaces_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What the guest's shell knows beside its task: `meshbed`, `same` (the kernel is as it was at the start), `within`
/// (waits for a condition, 60 s at most), `crossed` (what one end of each pair sent, the other received, above so many
/// bytes in all).
constexpr const char* kPrelude = R"sh(
set -eu
export MESHBED_EMU_CACHE=/nowhere
everything() {
  ip -details -4 rule; ip -details -6 rule; ip -o link; ip -o addr | sed 's/ *valid_lft.*//'; ip -4 route show table all
  cat /proc/sys/net/ipv4/conf/*/rp_filter; rdma link; ls /run; ip netns list
}
within() {
  tries=0
  until eval "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "not within 60 s: $1" >&2; exit 1; }
    sleep 0.1
  done
}
same() {
  everything >after
  diff before after >&2 || { echo "the kernel is not as it was after: $1" >&2; exit 1; }
}
crossed() {
  total=0
  for one in /sys/class/net/mb*p*; do
    for other in /sys/class/net/mb*p*; do
      [ "$(cat "$one/iflink")" = "$(cat "$other/ifindex")" ] || continue
      # A neighbour may be asked for again between the two readings.
      within "[ \$(cat $one/statistics/tx_bytes) = \$(cat $other/statistics/rx_bytes) ]"
      total=$((total + $(cat "$one/statistics/tx_bytes")))
    done
  done
  [ $total -gt "$1" ] || { echo "only $total bytes crossed the cables" >&2; exit 1; }
  echo "crossed $total"
}
everything >before
)sh";

/// Runs `task` in a machine of its own, as root, and hands back the folder in which it ran, the same on both sides.
std::string in_a_machine(const std::string& name, const std::string& task) {
  emu::EmuNode node;
  node.name = "host";
  node.memory_mib = 700;
  node.cpus = 2;
  node.commands = {{"/bin/sh", "-c", kPrelude + task}};
  emu::EmuCluster cluster{.nodes = {node}, .wires = 0};
  emu::MicroVmOptions options;
  options.image = emu::make_boot_image(emu::cache_folder(), [](const std::string&) {});
  options.accelerator = emu::probe_accelerator();
  options.work_dir = scratch_folder("namespaces_" + name);
  options.keep_folder = true;
  options.time_limit_s = 900;
  emu::MicroVms machine(cluster, options);
  machine.start();
  const emu::ClusterOutcome outcome = machine.wait();
  const emu::NodeOutcome& only = outcome.nodes.front();
  const std::string said = text_of(only.commands.front().stdout_path) + text_of(only.commands.front().stderr_path);
  std::string troubles;
  for (const std::string& trouble : outcome.troubles) troubles += trouble + "\n";
  MESSAGE(name, ": ", outcome.total_s, " s\n", said);
  CHECK_MESSAGE(outcome.succeeded(), said, troubles);
  return only.folder;
}

}  // namespace

TEST_CASE("a triangle in one kernel runs as it does in virtual time, over its cables, and leaves nothing") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string scenario = scenario_file("spark-triangle");
  // What the file promises of the time, it promises of 16 MiB.
  const std::string arguments = " " + scenario + " --set workload.bytes=1M --set expect.max_over_bound=1.1 --results ";
  const std::string run = meshbed_program() + " run --world emu" + arguments;
  // 2 iterations of an all-reduce of 3 ranks, round the ring or by trees: 2 * 2 * (3 - 1) MiB.
  const std::string folder =
      in_a_machine("triangle", run + "results --backend namespaces\nsame run\n" + meshbed_program() +
                                   " emu up --set workload.bytes=1M --set expect.max_over_bound=1.1 " + scenario +
                                   "\n" + run + "again --json >again.json\n" + "crossed 8388608\n" + meshbed_program() +
                                   " emu status\n" + meshbed_program() + " emu down\nsame down\n");
  CHECK(text_of(folder + "/again.json").find("\"wrong\": 0,") != std::string::npos);
  CHECK(text_of(folder + "/again.json").find("\"backend\": \"namespaces\"") != std::string::npos);
  for (const std::string results : {"/results", "/again"}) {
    const std::string place = "'" + folder + results + "'";
    const CommandResult sim = run_command_line(meshbed_program() + " run" + arguments + place);
    REQUIRE_MESSAGE(sim.status == 0, sim.output);
    const CommandResult joined =
        run_command_line(meshbed_program() + " compare sim emu --scenario " + scenario + " --results " + place);
    CHECK_MESSAGE(joined.status == 0, joined.output);
  }
}

TEST_CASE("up and down may be said twice, broken off and killed: the kernel is as before") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string task = R"sh(
M=)sh" + meshbed_program() +
                           R"sh(
S=)sh" + scenario_file("pair") +
                           R"sh(
ranks() { ps ax -o args | grep -c '[r]un .*--world metal'; }

$M emu up $S
$M emu up $S | grep 'is up already'
$M emu down
same down
$M emu down | grep 'nothing is set up'

$M emu up $S >/dev/null 2>&1 & up=$!
within '[ -e /sys/class/net/mb1p0 ]'
kill -9 $up
wait $up || :
status=0; $M emu status >half || status=$?
grep 'half made' half
[ $status = 1 ]
$M emu up $S | grep half
$M emu status
$M emu down
same 'a broken set-up, up and down'

$M run --world emu --backend namespaces $S --set workload.bytes=1M --set workload.iterations=10000 --no-trace >run.out 2>&1 & run=$!
within '[ $(ranks) = 2 ]'
$M emu down 2>busy && exit 1
grep 'another meshbed' busy
kill -9 $run
wait $run || :
within '[ $(ranks) = 0 ]'
$M emu down
same 'a killed run and down'

$M run --world emu --backend namespaces $S --set workload.bytes=1M --set workload.iterations=10000 --no-trace >run.out 2>&1 & run=$!
within '[ $(ranks) = 2 ]'
kill -INT $run
status=0; wait $run || status=$?
cat run.out
[ $status = 130 ]
[ $(ranks) = 0 ]
same 'an interrupted run'

$M emu up $S --dry-run >by-hand.sh
sh by-hand.sh
$M run --world emu $S --set workload.bytes=64K --no-trace
crossed 65536
sh by-hand.sh && exit 1
sh /run/meshbed/emu-down.sh
same 'the commands by hand'
)sh";
  in_a_machine("life", task);
}

TEST_CASE("switches, IPv6, a missing path and namespaces of their own stand and fall in one kernel too") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string folder = scratch_folder("more_scenarios");
  std::ofstream(folder + "/switch.toml") << "[topology]\nkind = \"switch\"\nnodes = 3\n[workload]\nbytes = \"64K\"\n"
                                            "[expect]\nwrong = 0\n";
  // The second NIC of each has no cable, and the variable would let in nothing else under the kernel's names.
  std::ofstream(folder + "/six.toml") << R"([topology]
kind = "ring"
nodes = 2
nics = 2
[workload]
bytes = "64K"
[environment]
NCCL_IB_HCA = "=rocep1s0f0"
[[node]]
name = "node0"
nic = [{device = "rocep1s0f0", addresses = ["fd00:64::1/64"]}]
[[node]]
name = "node1"
nic = [{device = "rocep1s0f0", addresses = ["fd00:64::2/64"]}]
[expect]
wrong = 0
)";
  const std::string first =
      to_text(testbed::read_scenario(folder + "/six.toml", {}).cluster.nodes.front().management->address.address);
  const std::string task = R"sh(
M=)sh" + meshbed_program() +
                           R"sh(
S=)sh" + folder + R"sh(
first=)sh" + first + R"sh(
for scenario in $S/switch.toml $S/six.toml; do
  $M run $scenario --results results >/dev/null
  $M run --world emu --backend namespaces $scenario --results results
  $M compare sim emu --scenario $scenario --results results
  same "$scenario"
done

$M run --world emu --backend namespaces )sh" +
                           scenario_file("ring4-refused") + R"sh( --set workload.bytes=4K --no-trace
same 'a refused connection'

# This kernel's soft-RoCE does not send in them; all else stands.
$M emu up $S/six.toml --layout network-namespaces
ip netns exec mb0 busybox ping -c 1 -w 30 fd00:64::2
ip netns exec mb1 busybox ping -c 1 -w 30 $first
rdma link | grep -c 'mb[01]p0/1 state ACTIVE' | grep 2
$M emu down
busybox umount /run/netns && rmdir /run/netns  # the folder is ip's own
same 'network namespaces'
)sh";
  in_a_machine("more", task);
}

}  // namespace namespaces_test
