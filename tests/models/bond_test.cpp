// Bonds as values: whose RDMA device a function has, and what of a cluster carries something.
#include "models/lan/bond.h"

#include <doctest/doctest.h>

#include "models/pcie.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "models/topology_generate.h"
#include "tests/support/bonded.h"

namespace bond_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;

/// Two nodes on two cables, both of their NICs in a bond.
Cluster pair(BondMode mode, bool lag) {
  return test::bonded(*generate_topology({.kind = TopologyKind::kRing,
                                          .nodes = 2,
                                          .rails = 2,
                                          .rate_bps = kRate,
                                          .first_subnet = *read_prefix("192.168.100.0/24")}),
                      mode, lag);
}

std::uint64_t joint_bps(const Cluster& cluster) {
  const Topology topology = analyse(cluster);
  return joint_rate_bps(topology, direct_paths(topology, 0, 1));
}

}  // namespace

TEST_CASE("names of one card's functions differ in the function's number alone") {
  CHECK(differ_in_function("rocep1s0f0", "rocep1s0f1"));
  CHECK(differ_in_function("0000:01:00.0", "0000:01:00.1"));
  CHECK_FALSE(differ_in_function("rocep1s0f0", "rocep1s0f0"));
  CHECK_FALSE(differ_in_function("rocep1s0f0", "roceP2p1s0f0"));
  CHECK_FALSE(differ_in_function("rocep1s0f0", "rocep2s0f1"));
  CHECK_FALSE(differ_in_function("mlx5_0", "mlx5_1"));  // they may be two cards
  CHECK_FALSE(differ_in_function("f", "f1"));
  CHECK_FALSE(differ_in_function("", ""));
  CHECK_FALSE(differ_in_function("0", "1"));
}

TEST_CASE("a RoCE LAG is one device at its first function's port; without one each function keeps its own") {
  const Cluster lag = pair(BondMode::k8023ad, true);
  CHECK(device_of(lag, {0, 1}) == PortRef{0, 0});
  CHECK(device_of(lag, {0, 0}) == PortRef{0, 0});
  CHECK(is_lag_function(lag.nodes[0], 1));
  CHECK_FALSE(is_lag_function(lag.nodes[0], 0));
  CHECK(rdma_devices(lag.nodes[0]) == 1);
  CHECK(function_name(lag.nodes[0].nics[0]) == "rocep1s0f0");
  const Cluster cards = pair(BondMode::kActiveBackup, false);
  CHECK(device_of(cards, {0, 1}) == PortRef{0, 1});
  CHECK(rdma_devices(cards.nodes[0]) == 2);
  CHECK(is_standby(cards, {1, 1}));
  CHECK_FALSE(is_standby(cards, {1, 0}));
  CHECK_FALSE(is_standby(lag, {1, 1}));
}

TEST_CASE("modes that hash carry what all functions do, active-backup what one does") {
  CHECK(joint_bps(pair(BondMode::k8023ad, true)) == 2 * kRate);
  CHECK(joint_bps(pair(BondMode::kBalanceXor, true)) == 2 * kRate);
  CHECK(joint_bps(pair(BondMode::kActiveBackup, true)) == kRate);
  CHECK(joint_bps(pair(BondMode::kActiveBackup, false)) == kRate);
  for (const bool lag : {true, false}) {
    const Cluster cluster = pair(BondMode::kActiveBackup, lag);
    CHECK(analyse(cluster).crossed.empty());
    CHECK(cabled_nics(cluster)[0] == std::vector<int>{0});
    CHECK(bond_rate_bps(cluster.nodes[0], cluster.nodes[0].bonds[0]) == kRate);
  }
  const Cluster both = pair(BondMode::k8023ad, true);
  CHECK(analyse(both).crossed.empty());
  CHECK(live_nics(both, analyse(both), 0) == std::vector<int>{0});
  CHECK(NcclRouting(both, {}).nics(0) == std::vector<int>{0});
  CHECK(bond_rate_bps(both.nodes[0], both.nodes[0].bonds[0]) == 2 * kRate);
}

TEST_CASE("functions behind one PCIe link send no more than that carries") {
  Cluster cluster = pair(BondMode::k8023ad, true);
  Node& node = cluster.nodes[0];
  node.pcie = {{"pcie0", kRate}};
  for (Nic& nic : node.nics) nic.pcie = 0;
  CHECK(bond_rate_bps(node, node.bonds[0]) == kRate);
  CHECK(function_rate_bps(node, node.bonds[0]) == kRate);
  CHECK(joint_bps(cluster) == kRate);
}

TEST_CASE("on a switch the functions of a RoCE LAG are one port of their rates' sum") {
  Cluster cluster = pair(BondMode::k8023ad, true);
  Switch box{.name = "switch0", .ports = {}};
  for (const Cable& cable : cluster.cables) box.ports.insert(box.ports.end(), {cable.a, cable.b});
  cluster.switches.push_back(box);
  cluster.cables.clear();
  const Topology topology = analyse(cluster);
  REQUIRE(topology.segments.size() == 1);
  CHECK(topology.segments[0].ports == std::vector<PortRef>{{0, 0}, {1, 0}});
  CHECK(topology.segments[0].port_rates_bps == std::vector<std::uint64_t>{2 * kRate, 2 * kRate});
}

}  // namespace bond_test
