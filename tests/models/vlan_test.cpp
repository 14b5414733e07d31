// VLAN interfaces: their names, their entries in the GID table, and who is reached in which VLAN.
#include "models/lan/vlan.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "models/gid_table.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "models/topology_generate.h"

namespace vlan_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

Cluster make(TopologyKind kind, int nodes) {
  auto cluster = generate_topology(
      {.kind = kind, .nodes = nodes, .rate_bps = 100'000'000'000, .first_subnet = *read_prefix("192.168.100.0/24")});
  REQUIRE(cluster.has_value());
  return *cluster;
}

}  // namespace

TEST_CASE("a VLAN interface is named after its netdev, and the NIC's addresses are its") {
  Nic nic;
  nic.netdev = "eth0";
  CHECK(address_netdev(nic) == "eth0");
  nic.vlan = 100;
  CHECK(address_netdev(nic) == "eth0.100");
  CHECK(netdev_of(nic, {.index = 1, .vlan = 0}) == "eth0");
  CHECK(netdev_of(nic, {.index = 3, .vlan = 100}) == "eth0.100");
}

// Linux roce_gid_mgmt.c: the port's own netdev has the first entries; an upper device's come when it comes up.
TEST_CASE("a VLAN interface's GIDs stand behind the netdev's: link-local once more, then the addresses") {
  const IpPrefix address = *read_prefix("192.168.100.1/24");
  const auto table = linux_gid_table({.node = 2, .nic = 1}, {address}, 100);
  REQUIRE(table.size() == 6);
  const RawGid link_local = gid_of(link_local_address({.node = 2, .nic = 1}));
  CHECK(table[0] == GidEntry{0, GidType::kRoceV1, link_local, 0});
  CHECK(table[1] == GidEntry{1, GidType::kRoceV2, link_local, 0});
  CHECK(table[2] == GidEntry{2, GidType::kRoceV1, link_local, 100});
  CHECK(table[3] == GidEntry{3, GidType::kRoceV2, link_local, 100});
  CHECK(table[4] == GidEntry{4, GidType::kRoceV1, gid_of(address.address), 100});
  CHECK(table[5] == GidEntry{5, GidType::kRoceV2, gid_of(address.address), 100});
  // Another address comes on the same interface.
  const IpAddress other = read_prefix("192.168.100.9/24")->address;
  const auto exchanged = exchanged_gids(table, address.address, other);
  REQUIRE(exchanged.size() == 6);
  CHECK(exchanged[5] == GidEntry{7, GidType::kRoceV2, gid_of(other), 100});
}

TEST_CASE("a cable whose ends are in different VLANs joins no nodes, and this is reported") {
  Cluster cluster = make(TopologyKind::kRing, 2);
  for (Node& node : cluster.nodes) node.nics[0].vlan = 100;
  Topology topology = analyse(cluster);
  CHECK(topology.crossed.empty());
  REQUIRE(topology.segments.size() == 1);
  CHECK(topology.segments[0].vlan == 100);
  cluster.nodes[1].nics[0].vlan = 0;
  topology = analyse(cluster);
  CHECK(topology.segments.empty());
  REQUIRE(topology.crossed.size() == 1);
  CHECK(topology.crossed[0].is_other_vlan());
  CHECK_FALSE(topology.crossed[0].is_wrong_prefix());
  CHECK(topology.crossed[0].a_vlan == 100);
  CHECK(topology.crossed[0].b_vlan == 0);
}

TEST_CASE("NCCL takes a VLAN interface's GID like any other, and is lost where the peer's is in another VLAN") {
  Cluster cluster = make(TopologyKind::kRing, 2);
  const auto put_in = [&](int node, std::uint16_t vlan) {
    Nic& nic = cluster.nodes[static_cast<std::size_t>(node)].nics[0];
    nic.vlan = vlan;
    nic.gids = linux_gid_table({node, 0}, nic.addresses, vlan);
  };
  put_in(0, 100);
  put_in(1, 100);
  CHECK(nccl_gid(cluster.nodes[0].nics[0].gids, {})->index == 5);
  CHECK(NcclRouting(cluster, {}).aim(0, 1, 0, 0).aim == Aim::kReached);
  put_in(1, 200);
  CHECK(NcclRouting(cluster, {}).aim(0, 1, 0, 0).aim == Aim::kLost);
  put_in(1, 0);
  CHECK(NcclRouting(cluster, {}).aim(0, 1, 0, 0).aim == Aim::kLost);
}

TEST_CASE("VLANs part a switch, even within one subnet") {
  Cluster cluster = make(TopologyKind::kSwitch, 4);
  cluster.nodes[2].nics[0].vlan = cluster.nodes[3].nics[0].vlan = 200;
  const Topology topology = analyse(cluster);
  REQUIRE(topology.segments.size() == 2);
  CHECK(topology.segments[0].ports == std::vector<PortRef>{{0, 0}, {1, 0}});
  CHECK(topology.segments[1].ports == std::vector<PortRef>{{2, 0}, {3, 0}});
  CHECK(topology.segments[1].vlan == 200);
  CHECK(direct_paths(topology, 0, 2).empty());
  CHECK_FALSE(direct_paths(topology, 2, 3).empty());
}

}  // namespace vlan_test
