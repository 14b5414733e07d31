// Two real virtual machines on one cable: soft-RoCE between them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "emu/process.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace pair_boot_test {

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
  const std::string why = test::why_not_emulated();
  if (why.empty()) make_boot_image(cache_folder(), [](const std::string& text) { MESSAGE(text); });  // once
  return why;
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

void show(const ClusterOutcome& outcome) {
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
        "busybox ping -c 2 -w 60 192.168.100.{3}; busybox ping -c 1 -w 60 {4}; ip -6 addr show cable0 | grep fd00:64",
        device, node + 1, one.name, 2 - node, node == 0 ? "right" : "left")));
    if (!pingpong) continue;
    // The server may not listen yet when the client asks: it asks again.
    const std::string program = fmt::format("ibv_rc_pingpong -d {} -g 1 -n 50", device);
    one.commands.push_back(shell(node == 0
                                     ? program
                                     : fmt::format("for try in $(seq 100); do {} 192.168.100.1 && exit 0; sleep 0.2; "
                                                   "done; exit 1",
                                                   program)));
  }
  MicroVms vms(cluster, options_for(120));
  vms.start();
  const ClusterOutcome outcome = vms.wait();
  show(outcome);
  REQUIRE(outcome.nodes.size() == 2);
  CHECK(outcome.succeeded());
  CHECK(outcome.troubles.empty());
  for (const NodeOutcome& node : outcome.nodes) CHECK(text_of(node.folder + "/hostile") == "a'b \"$HOME\" `x`\nnext\\");
}

TEST_CASE("a cable is pulled and plugged in, one node stops and goes on, another loses its power") {
  if (const std::string why = why_not(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  EmuCluster cluster = pair();
  // Reports its port's state until a file "end" appears.
  const std::string watcher =
      "while ! test -e end; do cut -d' ' -f2 </sys/class/infiniband/rocep0/ports/1/state >state.new; mv state.new "
      "state; "
      "cat /sys/class/infiniband/rocep0/ports/1/gids/? >gids.new; mv gids.new gids; sleep 0.1; done; exit 7";
  cluster.nodes[0].commands = {shell(watcher), {"true"}};
  cluster.nodes[1].commands = {{"sleep", "1000"}};
  cluster.nodes[1].terminal = true;
  MicroVms vms(cluster, options_for(120));
  CHECK_THROWS_AS(vms.stop_vm("left"), std::out_of_range);  // nothing is there yet
  vms.start();
  while (vms.ready_s() == 0 && !vms.advance(0.1)) {
  }
  REQUIRE(vms.ready_s() > 0);
  const auto wait_for_state = [&](const std::string& state) {
    bool over = false;
    while (!over && text_of(vms.folder() + "/left/state") != state + "\n") over = vms.advance(0.05);
    return !over;
  };
  CHECK(wait_for_state("ACTIVE"));
  const std::string typed = "echo said-$((6 * 7))-by-$(hostname)-on-$(tty)\n";
  REQUIRE(write(vms.terminal("right"), typed.data(), typed.size()) == static_cast<ssize_t>(typed.size()));
  std::string shown;
  while (shown.find("said-42-by-right-on-/dev/ttyS1") == std::string::npos && !vms.advance(0.05)) {
    char block[4096];
    const ssize_t size = recv(vms.terminal("right"), block, sizeof block, MSG_DONTWAIT);
    if (size > 0) shown.append(block, static_cast<std::size_t>(size));
  }
  CHECK(shown.find("said-42-by-right-on-/dev/ttyS1") != std::string::npos);
  CHECK(vms.terminal("left") == -1);
  vms.set_link("left", "cable0", false);
  CHECK(wait_for_state("DOWN"));
  vms.set_link("left", "cable0", true);
  CHECK(wait_for_state("ACTIVE"));
  const auto gids_have = [&](const std::string& gid) {
    return text_of(vms.folder() + "/left/gids").find(gid) != std::string::npos;
  };
  CHECK(gids_have("ffff:c0a8:6401"));
  vms.change_address("left", "cable0", "192.168.100.1/24", "192.168.100.77/24");
  while (!gids_have("ffff:c0a8:644d") && !vms.advance(0.05)) {
  }
  CHECK_FALSE(gids_have("ffff:c0a8:6401"));
  CHECK_THROWS_AS(vms.change_address("left", "cable0", "192.168.100.1/24", "192.168.100.78/24"), std::runtime_error);
  vms.stop_vm("left");
  std::ofstream(vms.folder() + "/left/end") << "\n";
  CHECK_FALSE(vms.advance(1));  // it does not see it
  vms.continue_vm("left");
  vms.kill_vm("right");
  CHECK_THROWS_WITH_AS(vms.kill_vm("right"), "node 'right' is not running", std::runtime_error);
  CHECK_THROWS_AS(vms.set_link("left", "cable7", false), std::out_of_range);
  const ClusterOutcome outcome = vms.wait();
  show(outcome);
  CHECK_FALSE(outcome.succeeded());
  CHECK(outcome.troubles.empty());
  CHECK(outcome.nodes[0].end == NodeEnd::kDone);
  CHECK(outcome.nodes[0].exit_code == 7);
  CHECK(outcome.nodes[0].commands[1].exit_code == 0);
  CHECK(outcome.nodes[1].end == NodeEnd::kKilled);
  CHECK_FALSE(outcome.nodes[1].exit_code.has_value());
}

TEST_CASE("nodes that are not done in time are named with the end of their consoles; a request to stop is heard") {
  if (const std::string why = why_not(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  std::string folder;
  {
    MicroVms vms(pair(), options_for(0.5));
    folder = vms.folder();
    vms.start();
    const ClusterOutcome outcome = vms.wait();
    REQUIRE(outcome.troubles.size() == 2);
    CHECK(outcome.troubles[1].rfind("node 'right' is not done after 0.5 s; it was at ", 0) == 0);
    CHECK(outcome.troubles[1].find("; its console ") != std::string::npos);
    CHECK(outcome.nodes[0].end == NodeEnd::kTimedOut);
    CHECK_THROWS_AS(vms.continue_vm("left"), std::runtime_error);
  }
  CHECK_FALSE(std::filesystem::exists(folder));
  MicroVms vms(pair(), options_for(100));
  vms.request_stop();
  vms.start();
  const ClusterOutcome outcome = vms.wait();
  CHECK(outcome.troubles == std::vector<std::string>{"stopped before the end"});
  CHECK(outcome.nodes[0].end == NodeEnd::kStopped);
  CHECK(outcome.total_s < 60);
}

}  // namespace pair_boot_test
