// The cabling as a graph: chains, tours, loads.
#include "plugin/net/process/mesh_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "tests/net/graphs.h"

namespace mesh_graph_test {

using namespace meshbed;
using namespace meshbed::net;
using namespace meshbed::test;

namespace {

int length_of(const MeshGraph& graph, const std::vector<int>& tour) {
  int sum = 0;
  for (std::size_t at = 0; at < tour.size(); ++at) sum += graph.cables(tour[at], tour[(at + 1) % tour.size()]);
  return sum;
}

}  // namespace

TEST_CASE("cables are counted along the shortest chain, and a way takes the lowest node among equals") {
  const MeshGraph ring = ring_graph(6);
  CHECK(ring.cables(0, 0) == 0);
  CHECK(ring.cables(0, 5) == 1);
  CHECK(ring.cables(0, 3) == 3);
  CHECK(ring.way(0, 3) == std::vector<int>{1, 2, 3});
  CHECK(ring.way(3, 0) == std::vector<int>{2, 1, 0});
  CHECK(ring.way(2, 2).empty());
  CHECK(line_graph(16).cables(0, 15) == 15);
}

TEST_CASE("full, connected, apart") {
  CHECK(ring_graph(3).full());
  CHECK_FALSE(ring_graph(4).full());
  CHECK(ring_graph(4).connected());
  MeshGraph apart(4);
  apart.join(0, 1);
  apart.join(2, 3);
  CHECK_FALSE(apart.connected());
  CHECK(apart.cables(0, 2) == MeshGraph::kApart);
  CHECK(MeshGraph(1).full());
}

TEST_CASE("the shortest tour follows the cables, however the nodes are numbered") {
  MeshGraph ring(5);  // 0 - 3 - 1 - 4 - 2 - 0
  for (const auto& [left, right] : {std::pair{0, 3}, {3, 1}, {1, 4}, {4, 2}, {2, 0}}) ring.join(left, right);
  CHECK(ring.shortest_tour() == std::vector<int>{0, 2, 4, 1, 3});
  CHECK(ring.renumbered(ring.shortest_tour()) == ring_graph(5));
  CHECK(line_graph(4).shortest_tour() == std::vector<int>{0, 1, 2, 3});
  CHECK(star_graph(5).shortest_tour() == std::vector<int>{0, 1, 2, 3, 4});
  CHECK(ring_graph(16).shortest_tour().size() == 16);
  CHECK(MeshGraph(1).shortest_tour() == std::vector<int>{0});
}

TEST_CASE("no order of the nodes makes a shorter tour, and none of the same length comes before it: all graphs of 5") {
  int connected = 0;
  for (unsigned cables = 0; cables < 1U << 10U; ++cables) {
    MeshGraph graph(5);
    unsigned bit = 0;
    for (int left = 0; left < 5; ++left) {
      for (int right = 0; right < left; ++right, ++bit) {
        if ((cables >> bit & 1U) != 0) graph.join(left, right);
      }
    }
    if (!graph.connected()) continue;
    ++connected;
    std::vector<int> order(5), best;
    std::iota(order.begin(), order.end(), 0);
    do {
      if (best.empty() || length_of(graph, order) < length_of(graph, best)) best = order;
    } while (std::next_permutation(order.begin() + 1, order.end()));
    REQUIRE(graph.shortest_tour() == best);
  }
  CHECK(connected == 728);  // connected labelled graphs of five nodes: OEIS A001187
}

TEST_CASE("loads add up on each cable and direction that a way crosses") {
  const MeshGraph line = line_graph(4);
  CableLoad load(line);
  CHECK(load.most() == 0);
  load.add(0, 3, 1);
  load.add(1, 2, 0.5);
  load.add(2, 1, 1.25);  // the other direction
  CHECK(load.most() == 1.5);
}

}  // namespace mesh_graph_test
