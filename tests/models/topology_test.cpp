#include "models/topology.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "models/topology_generate.h"

namespace topology_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

Cluster make(TopologyKind kind, int nodes, int rails = 1, std::vector<int> shape = {}) {
  auto cluster = generate_topology({.kind = kind,
                                    .nodes = nodes,
                                    .shape = std::move(shape),
                                    .rails = rails,
                                    .rate_bps = 100'000'000'000,
                                    .first_subnet = *read_prefix("192.168.100.0/24")});
  REQUIRE(cluster.has_value());
  return *cluster;
}

std::string shape_of(const Cluster& cluster) { return describe(classify(analyse(cluster)), cluster.nodes.size()); }

/// Swaps two plugs: cable `left`'s b end and cable `right`'s b end.
Cluster crossed(Cluster cluster, std::size_t left, std::size_t right) {
  std::swap(cluster.cables[left].b, cluster.cables[right].b);
  return cluster;
}

}  // namespace

TEST_CASE("D23: a triangle is a full mesh and a ring, a pair a full mesh and a line") {
  CHECK(shape_of(make(TopologyKind::kRing, 2)) == "full mesh, line");
  CHECK(shape_of(make(TopologyKind::kRing, 3)) == "full mesh, ring");
  CHECK(shape_of(make(TopologyKind::kRing, 4)) == "ring");
  CHECK(shape_of(make(TopologyKind::kRing, 4, 2)) == "ring");
  CHECK(shape_of(make(TopologyKind::kLine, 4)) == "line");
  CHECK(shape_of(make(TopologyKind::kLine, 3)) == "line, star");
  CHECK(shape_of(make(TopologyKind::kStar, 5)) == "star");
  CHECK(shape_of(make(TopologyKind::kFullMesh, 5)) == "full mesh");
  CHECK(shape_of(make(TopologyKind::kSwitch, 3)) == "full mesh, ring");
  CHECK(shape_of(make(TopologyKind::kSwitch, 16)) == "full mesh");
  CHECK(shape_of(make(TopologyKind::kSwitch, 1)) == "one node");
  CHECK(shape_of(make(TopologyKind::kTorus, 9, 1, {3, 3})) == "torus 3x3");
  CHECK(shape_of(make(TopologyKind::kTorus, 12, 1, {4, 3})) == "torus 4x3");
  CHECK(shape_of(make(TopologyKind::kTorus, 24, 1, {2, 3, 4})) == "torus 2x3x4");
  CHECK(shape_of(make(TopologyKind::kTorus, 4, 1, {2, 2})) == "ring");
}

TEST_CASE("D23: two triangles side by side are disconnected, not a ring") {
  // Every node has degree 2, which a count of degrees alone takes for a ring.
  Cluster cluster = make(TopologyKind::kRing, 3);
  const Cluster other = make(TopologyKind::kRing, 3);
  for (const auto& node : other.nodes) cluster.nodes.push_back(node);
  for (auto cable : other.cables) {
    cable.a.node += 3;
    cable.b.node += 3;
    cluster.cables.push_back(cable);
  }
  CHECK(shape_of(cluster) == "disconnected");
}

TEST_CASE("a direct path names both NICs, and each rail is a path of its own") {
  const Topology ring = analyse(make(TopologyKind::kRing, 4));
  const auto paths = direct_paths(ring, 1, 0);
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].from == PortRef{1, 0});
  CHECK(paths[0].to == PortRef{0, 1});
  CHECK(ring.segments[static_cast<std::size_t>(paths[0].segment)].cable == 0);
  CHECK(direct_paths(ring, 0, 2).empty());
  CHECK(direct_paths(ring, 1, 1).empty());
  CHECK(direct_paths(analyse(make(TopologyKind::kRing, 2, 3)), 0, 1).size() == 3);
  CHECK(direct_paths(analyse(make(TopologyKind::kSwitch, 8, 2)), 3, 5).size() == 2);
}

TEST_CASE("ports without addresses reach those alike on their cable or switch, of other nodes") {
  Cluster pair = make(TopologyKind::kRing, 2, 2);
  const Cable cable = pair.cables[1];
  const auto bare = [&pair](PortRef port) {
    pair.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)].addresses.clear();
  };
  bare(cable.a);
  CHECK(link_local_peers(pair, cable.a).empty());  // the other end has an address
  CHECK(link_local_peers(pair, cable.b).empty());  // has one itself
  bare(cable.b);
  CHECK(link_local_peers(pair, cable.a) == std::vector<PortRef>{cable.b});
  CHECK(link_local_peers(pair, cable.b) == std::vector<PortRef>{cable.a});
  Cluster box = make(TopologyKind::kSwitch, 3);
  for (Node& node : box.nodes) node.nics[0].addresses.clear();
  CHECK(link_local_peers(box, {1, 0}) == std::vector<PortRef>{{0, 0}, {2, 0}});
}

TEST_CASE("a ring of four: neighbours one hop, opposite nodes two, both diagonals missing") {
  const Topology ring = analyse(make(TopologyKind::kRing, 4));
  CHECK(hop_counts(ring, 0) == std::vector<int>{0, 1, 2, 1});
  CHECK(shortest_path(ring, 0, 2) == std::vector<int>{0, 1, 2});
  CHECK(neighbours(ring, 0) == std::vector<int>{1, 3});
  const MissingPairs missing = pairs_without_direct_path(ring, 10);
  CHECK(missing.count == 2);
  CHECK(missing.first == std::vector<std::pair<int, int>>{{0, 2}, {1, 3}});
}

TEST_CASE("a line of four: hops are the difference of the positions") {
  const Topology line = analyse(make(TopologyKind::kLine, 4));
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) CHECK(hop_counts(line, from)[static_cast<std::size_t>(to)] == std::abs(from - to));
  }
  CHECK(shortest_path(line, 3, 0) == std::vector<int>{3, 2, 1, 0});
}

TEST_CASE("hops are symmetric and obey the triangle inequality in every generated topology of up to 9 nodes") {
  std::vector<Cluster> clusters;
  for (int n = 2; n <= 9; ++n) {
    for (const auto kind : {TopologyKind::kRing, TopologyKind::kLine, TopologyKind::kFullMesh, TopologyKind::kStar,
                            TopologyKind::kSwitch}) {
      clusters.push_back(make(kind, n));
    }
  }
  clusters.push_back(make(TopologyKind::kTorus, 9, 1, {3, 3}));
  clusters.push_back(make(TopologyKind::kTorus, 8, 1, {2, 2, 2}));
  for (const auto& cluster : clusters) {
    const Topology topology = analyse(cluster);
    const std::size_t n = cluster.nodes.size();
    std::vector<std::vector<int>> hops;
    for (std::size_t i = 0; i < n; ++i) hops.push_back(hop_counts(topology, static_cast<int>(i)));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        CHECK(hops[i][j] == hops[j][i]);
        CHECK((hops[i][j] == 1) == !direct_paths(topology, static_cast<int>(i), static_cast<int>(j)).empty());
        CHECK(shortest_path(topology, static_cast<int>(i), static_cast<int>(j)).size() ==
              static_cast<std::size_t>(hops[i][j] + 1));
        for (std::size_t k = 0; k < n; ++k) CHECK(hops[i][j] <= hops[i][k] + hops[k][j]);
      }
    }
  }
}

TEST_CASE("a torus that lacks one cable is none") {
  Cluster cluster = make(TopologyKind::kTorus, 9, 1, {3, 3});
  cluster.cables.pop_back();
  CHECK(shape_of(cluster) == "partial");
}

TEST_CASE("two swapped plugs make two crossed cables, and nothing passes over them") {
  const Topology topology = analyse(crossed(make(TopologyKind::kRing, 3), 0, 1));
  REQUIRE(topology.crossed.size() == 2);
  CHECK(topology.crossed[0].cable == 0);
  CHECK(topology.crossed[0].a_subnets == "192.168.100.0/24");
  CHECK(topology.crossed[0].b_subnets == "192.168.101.0/24");
  CHECK(topology.segments.size() == 1);
  CHECK(hop_counts(topology, 1) == std::vector<int>{-1, 0, -1});
  CHECK(shortest_path(topology, 1, 0).empty());
}

TEST_CASE("a link that is down joins no ports, but is not crossed") {
  Cluster cluster = make(TopologyKind::kRing, 3);
  cluster.nodes[0].nics[1].link_up = false;
  const Topology topology = analyse(cluster);
  CHECK(direct_paths(topology, 0, 1).empty());
  CHECK(topology.crossed.empty());
  CHECK(describe(classify(topology), 3) == "line, star");
}

TEST_CASE("ends with different prefix lengths talk as long as each holds the other's address") {
  Cluster cluster = make(TopologyKind::kRing, 2);
  cluster.nodes[1].nics[0].addresses = {*read_prefix("192.168.100.2/16")};
  CHECK(direct_paths(analyse(cluster), 0, 1).size() == 1);
  cluster.nodes[1].nics[0].addresses = {*read_prefix("192.168.101.2/16")};
  CHECK(direct_paths(analyse(cluster), 0, 1).empty());
}

TEST_CASE("two subnets on one switch are two groups") {
  Cluster cluster = make(TopologyKind::kSwitch, 5);
  for (const std::size_t node : {3U, 4U}) {
    cluster.nodes[node].nics[0].addresses = {*read_prefix("172.16.0." + std::to_string(node) + "/24")};
  }
  const Topology topology = analyse(cluster);
  CHECK(topology.segments.size() == 2);
  CHECK(neighbours(topology, 0) == std::vector<int>{1, 2});
  CHECK(neighbours(topology, 3) == std::vector<int>{4});
  CHECK(pairs_without_direct_path(topology, 100).count == 6);
}

TEST_CASE("missing pairs are counted beyond the limit, also on thousands of nodes") {
  const MissingPairs ring = pairs_without_direct_path(analyse(make(TopologyKind::kRing, 2000)), 5);
  CHECK(ring.count == 2000ULL * 1999 / 2 - 2000);
  CHECK(ring.first.size() == 5);
  CHECK(pairs_without_direct_path(analyse(make(TopologyKind::kSwitch, 20'000)), 5).count == 0);
}

}  // namespace topology_test
