#include "models/topology_generate.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <set>
#include <tuple>

namespace topology_generate_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

TopologyOptions options(TopologyKind kind, int nodes) {
  return {.kind = kind,
          .nodes = nodes,
          .rate_bps = 100'000'000'000,
          .latency_ps = kPicosecondsPerMicrosecond,
          .switch_latency_ps = 300 * kPicosecondsPerNanosecond,
          .first_subnet = *read_prefix("192.168.100.0/24")};
}

Cluster generate(const TopologyOptions& wanted) {
  auto cluster = generate_topology(wanted);
  REQUIRE_MESSAGE(cluster.has_value(), (cluster ? "" : cluster.error().text));
  return *cluster;
}

std::string error_of(const TopologyOptions& wanted) {
  const auto cluster = generate_topology(wanted);
  REQUIRE_FALSE(cluster.has_value());
  return cluster.error().text;
}

const Nic& nic(const Cluster& cluster, PortRef port) {
  return cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)];
}

/// What every generated cluster keeps: a NIC has one cable, a cable one subnet that no other cable has, and the NICs
/// that are not cabled have no address.
void check_sound(const Cluster& cluster) {
  std::set<PortRef> used;
  std::set<std::string> subnets;
  std::set<std::string> addresses;
  std::set<std::string> names;
  for (const auto& cable : cluster.cables) {
    CHECK(used.insert(cable.a).second);
    CHECK(used.insert(cable.b).second);
    CHECK(names.insert(cable.name).second);
    REQUIRE(nic(cluster, cable.a).addresses.size() == 1);
    REQUIRE(nic(cluster, cable.b).addresses.size() == 1);
    CHECK(same_subnet(nic(cluster, cable.a).addresses[0], nic(cluster, cable.b).addresses[0]));
    CHECK(subnets.insert(subnet_text(nic(cluster, cable.a).addresses[0])).second);
  }
  for (const auto& box : cluster.switches) {
    for (const auto& port : box.ports) {
      CHECK(used.insert(port).second);
      REQUIRE(nic(cluster, port).addresses.size() == 1);
      CHECK(same_subnet(nic(cluster, port).addresses[0], nic(cluster, box.ports[0]).addresses[0]));
    }
  }
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    std::set<std::string> devices;
    for (std::size_t i = 0; i < cluster.nodes[n].nics.size(); ++i) {
      const Nic& one = cluster.nodes[n].nics[i];
      CHECK(devices.insert(one.device + " " + one.netdev + " " + one.pci_path).second);
      CHECK(one.netdev.size() <= 15);
      const bool cabled = used.count({static_cast<int>(n), static_cast<int>(i)}) != 0;
      CHECK(one.addresses.empty() == !cabled);
      for (const auto& address : one.addresses) CHECK(addresses.insert(to_text(address.address)).second);
    }
  }
}

}  // namespace

TEST_CASE("a triangle is three cables, each its own subnet, second NIC to the next node's first") {
  const Cluster cluster = generate(options(TopologyKind::kRing, 3));
  check_sound(cluster);
  REQUIRE(cluster.cables.size() == 3);
  for (int i = 0; i < 3; ++i) {
    const Cable& cable = cluster.cables[static_cast<std::size_t>(i)];
    CHECK(cable.a == PortRef{i, 1});
    CHECK(cable.b == PortRef{(i + 1) % 3, 0});
    CHECK(to_text(nic(cluster, cable.a).addresses[0]) == "192.168." + std::to_string(100 + i) + ".1/24");
    CHECK(to_text(nic(cluster, cable.b).addresses[0]) == "192.168." + std::to_string(100 + i) + ".2/24");
    CHECK(cable.propagation_ps == kPicosecondsPerMicrosecond);
  }
  CHECK(cluster.cables[2].name == "node2-node0");
  CHECK(cluster.nodes[0].nics[0].device == "rocep1s0f0");
  CHECK(cluster.nodes[0].nics[1].netdev == "enp1s0f1np1");
  CHECK(cluster.nodes[0].nics[1].pci_path == "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1");
}

TEST_CASE("a ring of two is a pair with one cable, and each further rail is one cable more") {
  const Cluster pair = generate(options(TopologyKind::kRing, 2));
  check_sound(pair);
  CHECK(pair.cables.size() == 1);
  CHECK(pair.nodes[0].nics.size() == 1);
  TopologyOptions dual = options(TopologyKind::kRing, 2);
  dual.rails = 2;
  const Cluster rails = generate(dual);
  check_sound(rails);
  REQUIRE(rails.cables.size() == 2);
  CHECK(rails.cables[1].name == "node0-node1-rail1");
  CHECK(rails.cables[1].a == PortRef{0, 1});
  CHECK(rails.cables[1].b == PortRef{1, 1});
}

TEST_CASE("every kind and size up to 17 nodes and 3 rails is sound and has the cables of its formula") {
  for (int n = 2; n <= 17; ++n) {
    for (int rails = 1; rails <= 3; ++rails) {
      const std::map<TopologyKind, int> cables = {{TopologyKind::kRing, n == 2 ? 1 : n},
                                                  {TopologyKind::kLine, n - 1},
                                                  {TopologyKind::kFullMesh, n * (n - 1) / 2},
                                                  {TopologyKind::kStar, n - 1},
                                                  {TopologyKind::kSwitch, 0}};
      for (const auto& [kind, count] : cables) {
        TopologyOptions wanted = options(kind, n);
        wanted.rails = rails;
        const Cluster cluster = generate(wanted);
        check_sound(cluster);
        CHECK(cluster.nodes.size() == static_cast<std::size_t>(n));
        CHECK(cluster.cables.size() == static_cast<std::size_t>(count * rails));
        CHECK(cluster.switches.size() == static_cast<std::size_t>(kind == TopologyKind::kSwitch ? rails : 0));
      }
    }
  }
}

TEST_CASE("a torus has a ring in each dimension, and a dimension of two is one cable") {
  const auto torus = [](std::vector<int> shape, int nodes) {
    TopologyOptions wanted = options(TopologyKind::kTorus, nodes);
    wanted.shape = std::move(shape);
    return wanted;
  };
  for (const auto& [shape, nodes, cables] : std::vector<std::tuple<std::vector<int>, int, std::size_t>>{
           {{4, 4}, 16, 32}, {{2, 4}, 8, 12}, {{3, 3, 3}, 27, 81}, {{5}, 5, 5}, {{2, 2}, 4, 4}, {{1, 3}, 3, 3}}) {
    const Cluster cluster = generate(torus(shape, nodes));
    check_sound(cluster);
    CHECK(cluster.cables.size() == cables);
    std::map<int, int> degree;
    for (const auto& cable : cluster.cables) {
      ++degree[cable.a.node];
      ++degree[cable.b.node];
    }
    for (int node = 0; node < nodes; ++node) CHECK(degree[node] == 2 * static_cast<int>(cables) / nodes);
  }
  CHECK(error_of(torus({4, 4}, 15)) == "nodes = 15 is not the product of shape");
  CHECK(error_of(torus({}, 4)) == "a torus needs shape, as in shape = [4, 4]");
}

TEST_CASE("NICs that the topology does not cable stay without address") {
  TopologyOptions wanted = options(TopologyKind::kLine, 4);
  wanted.nics = 2;
  const Cluster cluster = generate(wanted);
  check_sound(cluster);
  CHECK(cluster.nodes[0].nics.size() == 2);
  CHECK(cluster.nodes[0].nics[1].addresses.empty());
}

TEST_CASE("nics and rails must fit: twice the NICs are two rails, too few are an error") {
  TopologyOptions four = options(TopologyKind::kRing, 4);
  four.nics = 4;
  CHECK(generate(four).cables.size() == 8);
  TopologyOptions one = options(TopologyKind::kRing, 4);
  one.nics = 1;
  CHECK(error_of(one) == "a ring of 4 nodes with 1 rail needs 2 NICs a node, but nics = 1");
}

TEST_CASE("a switch's subnet is widened until it holds every node") {
  CHECK(to_text(generate(options(TopologyKind::kSwitch, 254)).nodes[253].nics[0].addresses[0]) == "192.168.100.254/24");
  const Cluster large = generate(options(TopologyKind::kSwitch, 255));
  CHECK(to_text(large.nodes[0].nics[0].addresses[0]) == "192.168.0.1/16");
  CHECK(to_text(large.nodes[254].nics[0].addresses[0]) == "192.168.0.255/16");
  check_sound(generate(options(TopologyKind::kSwitch, 65536)));
}

TEST_CASE("what no machine could hold is refused before memory is taken") {
  CHECK(error_of(options(TopologyKind::kRing, 999'999'999)) == "a ring has 2 to 65536 nodes, not 999999999");
  CHECK(error_of(options(TopologyKind::kRing, 1)) == "a ring has 2 to 65536 nodes, not 1");
  CHECK(error_of(options(TopologyKind::kFullMesh, 600)) ==
        "a full-mesh of 600 nodes with 1 rail needs 359400 NICs; the most is 262144");
  CHECK(error_of(options(TopologyKind::kStar, 2000)).find("NICs on one node; the most is 1024") != std::string::npos);
  TopologyOptions wide = options(TopologyKind::kSwitch, 65536);
  wide.nics = 64;
  CHECK(error_of(wide).find("NICs; the most is 262144") != std::string::npos);
}

TEST_CASE("subnets run out at the end of the address space, and two ends need two addresses") {
  TopologyOptions last = options(TopologyKind::kRing, 4);
  last.first_subnet = *read_prefix("255.255.254.0/24");
  CHECK(error_of(last) == "the addresses after 255.255.254.0/24 run out");
  last.first_subnet = *read_prefix("192.168.100.0/32");
  CHECK(error_of(last) == "first_subnet 192.168.100.0/32 has no room for the two ends of a cable");
  last.first_subnet = *read_prefix("192.168.100.0/31");
  const Cluster cluster = generate(last);
  CHECK(to_text(nic(cluster, cluster.cables[0].a).addresses[0]) == "192.168.100.0/31");
  CHECK(to_text(nic(cluster, cluster.cables[1].b).addresses[0]) == "192.168.100.3/31");
  last.first_subnet = *read_prefix("fd00:0:0:ffff::/64");
  const Cluster six = generate(last);
  check_sound(six);
  CHECK(to_text(nic(six, six.cables[1].a).addresses[0]) == "fd00:0:1::1/64");
}

}  // namespace topology_generate_test
