// A cluster inside one kernel, as commands.
#include "emu/namespace/namespace_plan.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "emu/namespace/host_networks.h"
#include "emu/namespace/namespace_host.h"
#include "tests/emu/clusters.h"
#include "tests/support/command.h"

namespace namespace_plan_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

NamespacePlan plan_of(const EmuCluster& cluster, NamespaceLayout layout = NamespaceLayout::kPolicyRouting) {
  check_cluster(cluster);
  return plan_namespaces(cluster, {.layout = layout, .folder = "/run/here", .owner = "test", .title = "a test"});
}

std::vector<std::string> applied(const NamespacePlan& plan) {
  std::vector<std::string> lines;
  for (const NamespaceStep& step : plan.steps) lines.push_back(step.apply);
  return lines;
}

std::ptrdiff_t position(const std::vector<std::string>& lines, const std::string& line) {
  const auto found = std::find(lines.begin(), lines.end(), line);
  REQUIRE_MESSAGE(found != lines.end(), line);
  return found - lines.begin();
}

int exit_of_shell(const std::string& arguments, const std::string& script) {
  const std::string file = scratch_folder("namespace_plan") + "/script.sh";
  std::ofstream(file) << script;
  return run_command_line("sh " + arguments + " '" + file + "' 2>&1").status;
}

}  // namespace

TEST_CASE("one cable between two nodes is one veth pair, routed by each end's own table") {
  EmuCluster cluster = mesh_cluster(2);
  cluster.nodes[0].management_address = "10.0.0.1/16";
  const auto lines = applied(plan_of(cluster));
  const std::vector<std::string> expected{
      "cat /proc/sys/net/ipv4/conf/all/rp_filter >/run/here/emu-rp_filter",
      "echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter",
      "ip -4 rule add pref 100 lookup local",
      "ip link add mb0p0 address 02:00:00:00:00:00 mtu 1500 type veth peer name mb1p0 address 02:00:00:00:01:00 mtu "
      "1500",
      "echo 0 >/proc/sys/net/ipv4/conf/mb0p0/rp_filter",
      "echo 1 >/proc/sys/net/ipv4/conf/mb0p0/accept_local",
      "echo 1 >/proc/sys/net/ipv4/conf/mb0p0/arp_ignore",
      "[ ! -e /proc/sys/net/ipv6/conf/mb0p0/accept_dad ] || echo 0 >/proc/sys/net/ipv6/conf/mb0p0/accept_dad",
      "ip link set mb0p0 up",
      "ip addr add 192.168.100.1/24 dev mb0p0 noprefixroute",
      "ip -4 rule add pref 5 iif mb0p0 lookup local",
      "ip -4 rule add pref 10 oif mb0p0 lookup 479100",
      "ip -4 route add 192.168.100.0/24 dev mb0p0 src 192.168.100.1 table 479100"};
  REQUIRE(lines.size() > expected.size());
  CHECK(std::vector<std::string>(lines.begin() + 1, lines.begin() + 1 + static_cast<std::ptrdiff_t>(expected.size())) ==
        expected);
  // The host's addresses stay known throughout, and a device is made when its addresses are there.
  const auto leave = position(lines, "ip -4 rule del pref 0 lookup local");
  CHECK(position(lines, "ip -4 rule add pref 100 lookup local") < leave);
  CHECK(position(lines, "ip -4 route add 192.168.100.0/24 dev mb1p0 src 192.168.100.2 table 479101") < leave);
  CHECK(leave < position(lines, "rdma link add mb1p0 type rxe netdev mb1p0"));
  CHECK(position(lines, "ip addr add 10.0.0.1/32 dev lo") > leave);
  CHECK(lines.back() == "echo '# complete' >>/run/here/emu-down.sh");
}

TEST_CASE("what a plan changes it puts back, the last first, and the way back is written before all else") {
  EmuCluster cluster = mesh_cluster(3);
  cluster.nodes[0].management_address = "10.0.0.1/16";
  const NamespacePlan plan = plan_of(cluster);
  const std::string down = take_down_script(plan);
  CHECK(plan.steps.front().apply.find(down) != std::string::npos);
  std::size_t before = 0;
  for (const char* undo :
       {"ip addr del 10.0.0.1/32 dev lo", "rdma link del mb2p1", "rdma link del mb0p0",
        "ip -4 rule add pref 0 protocol kernel lookup local", "ip -4 rule del pref 10 oif mb2p1",
        "ip -4 rule del pref 5 iif mb0p0", "ip link del mb1p1", "ip link del mb0p0",
        "ip -4 rule del pref 100 lookup local", "conf/all/rp_filter && rm", "rm -f /run/here/emu-down.sh"}) {
    const std::size_t at = down.find(undo);
    CHECK_MESSAGE(at != std::string::npos, undo);
    CHECK_MESSAGE(at > before, undo, " comes too early");
    before = at;
  }
  // Every interface, device, rule and address of the plan has its undo.
  for (const NamespaceStep& step : plan.steps) {
    const bool makes = step.apply.rfind("ip link add", 0) == 0 || step.apply.rfind("rdma link add", 0) == 0 ||
                       step.apply.find(" rule ") != std::string::npos || step.apply.find("dev lo") != std::string::npos;
    CHECK_MESSAGE((!makes || !step.undo.empty() || step.apply.find('\n') != std::string::npos), step.apply);
  }
}

TEST_CASE("the first NIC of each node has another name, table and rule, and the kernel takes the names") {
  const NamespacePlan plan = plan_of(switch_cluster_of(120));
  std::set<std::string> names(plan.links.begin(), plan.links.end());
  CHECK(names.size() == plan.links.size());
  CHECK(names.size() == 1 + 2 * 120);
  for (const std::string& name : names) CHECK(name.size() <= 15);
  CHECK(names.count("mb119p0s") == 1);
  const auto lines = applied(plan);
  CHECK(position(lines, "ip link add mbw0 mtu 1500 type bridge") <
        position(lines, "ip link set mb119p0s mtu 1500 master mbw0 addrgenmode none up"));
  position(lines, "ip -4 rule add pref 10 oif mb119p0 lookup 479219");
}

TEST_CASE("a NIC without a cable has a pair whose other end stays down, and is not waited for") {
  EmuCluster cluster = mesh_cluster(2);
  cluster.nodes[0].nics.push_back(nic_on_wire(0, 1, 5));
  cluster.nodes[0].nics[1].wire = -1;
  const auto lines = applied(plan_of(cluster));
  position(lines, "ip link add mb0p1 address 02:00:00:00:00:01 mtu 1500 type veth peer name mb0p1s mtu 1500");
  CHECK(std::find(lines.begin(), lines.end(), "ip link set mb0p1s up") == lines.end());
  CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("tries=0") == 0 && line.find("mb0p1") != std::string::npos;
  }));
}

TEST_CASE("IPv6 has its own rules and routes; two addresses of one network have one route") {
  EmuCluster cluster = mesh_cluster(2);
  cluster.nodes[1].nics[0].addresses = {"192.168.100.2/24", "192.168.100.3/24", "fd00:64::2/64"};
  const auto lines = applied(plan_of(cluster));
  for (const char* line :
       {"ip -6 rule add pref 100 lookup local", "ip addr add fd00:64::2/64 dev mb1p0 noprefixroute nodad",
        "ip -6 rule add pref 5 iif mb1p0 lookup local", "ip -6 rule add pref 10 oif mb1p0 lookup 479101",
        "ip -6 route add fd00:64::/64 dev mb1p0 src fd00:64::2 table 479101", "ip -6 rule del pref 0 lookup local"}) {
    position(lines, line);
  }
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.find("ip -4 route add 192.168.100.0/24 dev mb1p0") == 0;
        }) == 1);
}

TEST_CASE("with network namespaces each node has one, and the host's routing is left alone") {
  EmuCluster cluster = mesh_cluster(2);
  for (int node = 0; node < 2; ++node) {
    cluster.nodes[static_cast<std::size_t>(node)].management_address = fmt::format("10.0.0.{}/16", node + 1);
  }
  const NamespacePlan plan = plan_of(cluster, NamespaceLayout::kNetworkNamespaces);
  const auto lines = applied(plan);
  CHECK(position(lines, "ip netns add mb1") < position(lines, "ip link set mb1p0 netns mb1"));
  position(lines, "ip -n mb1 addr add 192.168.100.2/24 dev mb1p0");
  position(lines, "ip netns exec mb1 rdma link add mb1p0 type rxe netdev mb1p0");
  position(lines, "ip -n mb1 addr add 10.0.0.2/16 dev mgmt0");
  for (const std::string& line : lines) {
    for (const char* host : {" rule ", "rp_filter", "dev lo", "accept_local"}) {
      CHECK_MESSAGE(line.find(host) == std::string::npos, line);
    }
  }
  CHECK(plan.namespaces == std::vector<std::string>{"mb0", "mb1"});
  CHECK(namespace_prefix(NamespaceLayout::kNetworkNamespaces, 1) ==
        std::vector<std::string>{"ip", "netns", "exec", "mb1"});
  CHECK(namespace_prefix(NamespaceLayout::kPolicyRouting, 1).empty());
}

TEST_CASE("the scripts are a shell's, for every layout, and a plan's digest is that of what it does") {
  for (const auto layout : {NamespaceLayout::kPolicyRouting, NamespaceLayout::kNetworkNamespaces}) {
    const NamespacePlan plan = plan_of(mesh_cluster(3), layout);
    CHECK(exit_of_shell("-n", set_up_script(plan)) == 0);
    CHECK(exit_of_shell("-n", take_down_script(plan)) == 0);
    CHECK(exit_of_shell("-n", set_up_script(plan) + "fi\n") != 0);  // it does look
  }
  CHECK(plan_of(mesh_cluster(3)).digest == plan_of(mesh_cluster(3)).digest);
  EmuCluster other = mesh_cluster(3);
  other.nodes[2].nics[0].mtu = 4096;
  CHECK(plan_of(mesh_cluster(3)).digest != plan_of(other).digest);
}

TEST_CASE("the state says what is set up, by whom, and whether the set-up came to its end") {
  const std::string folder = scratch_folder("namespace_state");
  CHECK_FALSE(read_namespace_state(folder).has_value());
  const NamespacePlan plan =
      plan_namespaces(mesh_cluster(2), {.folder = folder, .owner = kNamespacesByRun, .title = "scenario x (a b.toml)"});
  // The first step alone: a set-up that was killed right after it.
  REQUIRE(exit_of_shell("-e", plan.steps.front().apply) == 0);
  auto state = read_namespace_state(folder);
  REQUIRE(state.has_value());
  CHECK_FALSE(state->complete);
  CHECK(state->digest == plan.digest);
  CHECK(state->owner == kNamespacesByRun);
  CHECK(state->layout == "policy-routing");
  CHECK(state->title == "scenario x (a b.toml)");
  CHECK(state->text == take_down_script(plan));
  CHECK(exit_of_shell("-e", plan.steps.front().apply) == 1);  // a second one does not overwrite the way back
  REQUIRE(exit_of_shell("-e", plan.steps.back().apply) == 0);
  CHECK(read_namespace_state(folder)->complete);
}

TEST_CASE("a way back with nothing to put back ends well and is gone; one that fails says where, and stays") {
  const std::string folder = scratch_folder("namespace_down");
  NamespacePlan plan{.options = {.folder = folder, .owner = "test", .title = ""},
                     .steps = {},
                     .links = {},
                     .namespaces = {},
                     .addresses = {},
                     .digest = "0"};
  const std::string log = folder + "/log";
  plan.steps = {{"true", "echo first >>" + log}, {"true", "false # breaks"}, {"true", "echo last >>" + log}};
  std::ofstream(state_file(folder)) << take_down_script(plan);
  CHECK_THROWS_WITH_AS(take_down(folder), doctest::Contains("not all could be taken down: not undone: false # breaks"),
                       std::runtime_error);
  CHECK(std::filesystem::exists(state_file(folder)));
  CHECK(run_command_line("tr '\\n' ' ' <'" + log + "'").output == "last first ");
  plan.steps.erase(plan.steps.begin() + 1);
  std::ofstream(state_file(folder)) << take_down_script(plan);
  CHECK(take_down(folder));
  CHECK_FALSE(std::filesystem::exists(state_file(folder)));
  CHECK_FALSE(take_down(folder));
}

TEST_CASE("addresses in a network of the host, and rules of its own before the local table, are refused") {
  CHECK_THROWS_WITH_AS(
      require_free_networks({"192.168.250.1/24", "127.0.0.5/32"}),
      doctest::Contains("the address 127.0.0.5/32 of the scenario meets the network of this host's lo"),
      std::runtime_error);
  CHECK_THROWS_AS(require_free_networks({"::1/128"}), std::runtime_error);
  require_free_networks({"203.0.113.7/32"});  // documentation's own (RFC 5737)
  const std::string plain =
      "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n";
  require_plain_rules(plain, "ip -4 rule");
  CHECK_THROWS_WITH_AS(require_plain_rules(plain + "7:\tfrom all fwmark 0x1 lookup 51\n", "ip -4 rule"),
                       doctest::Contains("a routing rule of its own before preference 100 (`ip -4 rule`: 7:"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(require_plain_rules("32766:\tfrom all lookup main\n", "ip -4 rule"),
                       doctest::Contains("is not that of its local addresses"), std::runtime_error);
}

TEST_CASE("an address's network is its first bits") {
  CHECK(network_text("192.168.100.7/24") == "192.168.100.0/24");
  CHECK(network_text("10.1.2.3/9") == "10.0.0.0/9");
  CHECK(network_text("10.1.2.3/32") == "10.1.2.3/32");
  CHECK(network_text("fd00:64::2/64") == "fd00:64::/64");
  CHECK(network_text("fdff::1/10") == "fdc0::/10");
}

}  // namespace namespace_plan_test
