// Two real virtual machines on one cable: soft-RoCE between them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "emu/boot_image.h"
#include "emu/config.h"
#include "emu/microvm.h"
#include "emu/probe.h"
#include "emu/process.h"
#include "tests/support/command.h"

using namespace meshbed;
using namespace meshbed::test;
using namespace meshbed::emu;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Why no virtual machine can be started here; empty: one can.
std::string why_not() {
  for (const Part& part : look_at_parts()) {
    if (!part.present) return part.what + ": " + part.detail;
  }
  try {
    // The tests download nothing: `meshbed run --world emu` makes the image, once.
    if (!find_boot_image(cache_folder())) return "no boot image in " + cache_folder();
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "";
}

EmuCluster pair() {
  EmuCluster cluster{.nodes = {}, .wires = 1};
  for (int node = 0; node < 2; ++node) {
    EmuNode one;
    one.name = node == 0 ? "left" : "right";
    one.nics.push_back(
        {.netdev = "cable0",
         .rdma_device = fmt::format("rocep{}", node),
         .mac = fmt::format("52:54:00:aa:00:0{}", node),
         .addresses = {fmt::format("192.168.100.{}/24", node + 1), fmt::format("fd00:64::{}/64", node + 1)},
         .wire = 0});
    one.nics.push_back({.netdev = "eth0",  // the kernel's own name for another NIC
                        .rdma_device = "loose",
                        .mac = fmt::format("52:54:00:aa:01:0{}", node),
                        .addresses = {"192.168.200.1/24"},
                        .wire = -1});
    one.management_address = fmt::format("10.0.0.{}/24", node + 1);
    one.environment = {{"HOSTILE", "a'b \"$HOME\" `x`\nnext\\"}};
    cluster.nodes.push_back(one);
  }
  return cluster;
}

MicroVmOptions options_for(double time_limit_s) {
  MicroVmOptions options;
  options.image = *find_boot_image(cache_folder());
  options.accelerator = probe_accelerator();
  options.work_dir = scratch_folder("emu");
  options.time_limit_s = time_limit_s;
  return options;
}

std::vector<std::string> shell(const std::string& text) { return {"/bin/sh", "-ec", text}; }

void show(const Outcome& outcome) {
  std::string text = fmt::format("ready after {:.1f} s, total {:.1f} s", outcome.ready_s, outcome.total_s);
  for (const NodeOutcome& node : outcome.nodes) {
    text += fmt::format("\n{} ({} MiB):", node.name, node.memory_mib);
    for (const Mark& mark : node.marks) text += fmt::format(" {} {:.1f} s;", mark.text, mark.at_s);
    for (const CommandOutcome& command : node.commands) {
      text += "\n" + text_of(command.stdout_path) + text_of(command.stderr_path);
    }
  }
  for (const std::string& trouble : outcome.troubles) text += "\n" + trouble;
  MESSAGE(text);
}

}  // namespace

TEST_CASE("two virtual machines on one cable have their devices, GIDs, names and peers, and verbs cross the cable") {
  if (const std::string why = why_not(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  EmuCluster cluster = pair();
  const bool pingpong = !find_program("ibv_rc_pingpong").empty();
  for (int node = 0; node < 2; ++node) {
    EmuNode& one = cluster.nodes[static_cast<std::size_t>(node)];
    const std::string device = one.nics[0].rdma_device;
    one.commands.push_back(shell(fmt::format(
        "rdma link; rdma link | grep -q '^link {0}/1 state ACTIVE .*netdev cable0'; "
        "rdma link | grep -q '^link loose/1 state DOWN .*netdev eth0'; "
        "grep -q ffff:c0a8:640{1} /sys/class/infiniband/{0}/ports/1/gids/*; "
        "test \"$(hostname)\" = {2}; pwd; printf %s \"$HOSTILE\" >hostile; "
        "ping -c 2 -W 20 192.168.100.{3} || echo no ping; ip -6 neigh; ip addr show mgmt0 | grep 10.0.0.{1}",
        device, node + 1, one.name, 2 - node)));
    if (!pingpong) continue;
    // The server may not listen yet when the client asks: it asks again.
    const std::string program = fmt::format("ibv_rc_pingpong -d {} -g 1 -n 50", device);
    one.commands.push_back(shell(node == 0
                                     ? program
                                     : fmt::format("for try in $(seq 100); do {} 192.168.100.1 && exit 0; sleep 0.2; "
                                                   "done; exit 1",
                                                   program)));
  }
  MicroVms vms(cluster, options_for(240));
  vms.start();
  const Outcome outcome = vms.wait();
  show(outcome);
  REQUIRE(outcome.nodes.size() == 2);
  CHECK(outcome.succeeded());
  CHECK(outcome.troubles.empty());
  for (const NodeOutcome& node : outcome.nodes) CHECK(text_of(node.folder + "/hostile") == "a'b \"$HOME\" `x`\nnext\\");
}
