// What NCCL's algorithms send between nodes, and their prices on cablings of the scenarios, by hand.
#include "plugin/nccl/tuner_price.h"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <utility>

#include "tests/net/graphs.h"

namespace tuner_price_test {

using namespace meshbed;
using namespace meshbed::nccl;
using namespace meshbed::test;

namespace {

using Table = std::array<std::array<float, kProtocols>, kAlgorithms>;

/// Row a, column p: 100 a + p + 1. Nothing is ignored.
Table sample() {
  Table table{};
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    for (int protocol = 0; protocol < kProtocols; ++protocol)
      table[algorithm][protocol] = 100.0F * algorithm + protocol + 1;
  }
  return table;
}

Table priced(const TunerPrices& prices, Table table, int collective = kAllReduce, std::size_t size_bytes = 1 << 20) {
  prices.apply({.collective = collective, .size_bytes = size_bytes, .algorithms = kAlgorithms, .protocols = kProtocols},
               table[0].data());
  return table;
}

/// Rows that were changed to "ignore" in all columns; every other row must be as it was.
std::set<int> dropped_rows(const TunerPrices& prices) {
  const Table before = sample(), after = priced(prices, before);
  std::set<int> rows;
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    if (after[algorithm] == before[algorithm]) continue;
    CHECK(after[algorithm] == std::array<float, kProtocols>{kCostIgnore, kCostIgnore, kCostIgnore});
    rows.insert(algorithm);
  }
  return rows;
}

const std::set<int> kRelayed{kAlgoTree, kAlgoNvlsTree, kAlgoPat};

}  // namespace

TEST_CASE("NCCL's trees: the picture of fourteen nodes, and the pairs of four and five") {
  CHECK(tree_parents(14, false) == std::vector<int>{-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12});
  CHECK(tree_parents(4, false) == std::vector<int>{-1, 2, 0, 2});
  CHECK(tree_parents(4, true) == std::vector<int>{1, 3, 1, -1});
  CHECK(tree_parents(5, false) == std::vector<int>{-1, 2, 4, 2, 0});
  CHECK(tree_parents(5, true) == std::vector<int>{1, -1, 3, 0, 3});
  CHECK(tree_parents(2, false) == std::vector<int>{-1, 0});
  CHECK(tree_parents(2, true) == std::vector<int>{1, -1});
}

TEST_CASE("for 1..16 nodes both trees reach all nodes, and none has three children") {
  for (int nodes = 1; nodes <= 16; ++nodes) {
    CAPTURE(nodes);
    for (const bool second : {false, true}) {
      const std::vector<int> parents = tree_parents(nodes, second);
      std::vector<int> children(static_cast<std::size_t>(nodes));
      int roots = 0;
      for (int node = 0; node < nodes; ++node) {
        int up = node, steps = 0;
        while (parents[up] >= 0 && ++steps <= nodes) up = parents[up];
        CHECK(steps <= 4);  // log2 of 16
        roots += parents[node] < 0 ? 1 : 0;
        if (parents[node] >= 0) ++children[parents[node]];
      }
      CHECK(roots == 1);
      for (const int count : children) CHECK(count <= 2);
    }
  }
}

TEST_CASE("what leaves a node: a ring's S, and as much in all rounds of PAT together") {
  for (int nodes = 2; nodes <= 16; nodes *= 2) {
    double sum = 0;
    for (const Edge& edge : pat_edges(nodes)) sum += edge.from == 0 ? edge.weight : 0;
    CHECK(sum == doctest::Approx(1));
  }
  CHECK(ring_edges(3) == std::vector<Edge>{{0, 1, 1}, {1, 2, 1}, {2, 0, 1}});
  CHECK(ring_edges(1).empty());
}

TEST_CASE("full meshes, pairs and a single node: nothing relays, and the table stays as it is") {
  for (const auto& graph : {full_graph(1), full_graph(2), ring_graph(3), full_graph(8), full_graph(16)}) {
    const TunerPrices prices(graph);
    CHECK(prices.idle());
    CHECK(dropped_rows(prices).empty());
  }
  CHECK(dropped_rows(TunerPrices()).empty());
}

TEST_CASE("rings of four to sixteen: Tree, NVLSTree and PAT are dropped, a ring keeps its price") {
  for (int nodes = 4; nodes <= 16; ++nodes) {
    CAPTURE(nodes);
    CHECK(dropped_rows(TunerPrices(ring_graph(nodes))) == kRelayed);
  }
}

TEST_CASE(
    "a ring with chords relays less, and Tree is dropped all the same; one chord short of full keeps what needs none") {
  net::MeshGraph graph = full_graph(4);  // the trees of four join 0-2 and 1-3, PAT as well
  CHECK(dropped_rows(TunerPrices(graph)).empty());
  net::MeshGraph short_of(4);
  for (const auto& [left, right] : {std::pair{0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 2}}) short_of.join(left, right);
  CHECK(dropped_rows(TunerPrices(short_of)) == kRelayed);  // 1-3
  net::MeshGraph without(5);  // all but 1-4, which neither tree of five has; PAT's rounds have it
  for (int left = 0; left < 5; ++left) {
    for (int right = 0; right < left; ++right) {
      if (!(left == 4 && right == 1)) without.join(left, right);
    }
  }
  CHECK(dropped_rows(TunerPrices(without)) == std::set<int>{kAlgoPat});
}

TEST_CASE("detours by hand: ring4, line4, star5, partial5") {
  // Trees of four: 1-2, 2-0, 3-2 and 0-1, 1-3, 2-1. On a ring 0-2 goes by 1 and 1-3 by 0; each direction of 0-1 then
  // carries its own half and both of theirs.
  CHECK(detour_of(ring_graph(4), kAlgoTree) == Detour{.relays = true, .load = 1.5, .extra_cables = 1});
  CHECK(detour_of(ring_graph(4), kAlgoRing) == Detour{});
  CHECK(detour_of(ring_graph(4), kAlgoPat).load == doctest::Approx(5.0 / 3));
  CHECK(detour_of(ring_graph(4), kAlgoPat).extra_cables == 1);
  // On a line 1 to 2 carries its own two halves, 0 to 2 and 1 to 3. The ring closes by three cables that no other way
  // uses in that direction; data miss one of the four hops, a short one at worst.
  CHECK(detour_of(line_graph(4), kAlgoTree) == Detour{.relays = true, .load = 2, .extra_cables = 1});
  CHECK(detour_of(line_graph(4), kAlgoRing) == Detour{.relays = true, .load = 1, .extra_cables = 2});
  // Trees of five: 1-2, 2-4, 3-2, 4-0 and 0-1, 2-3, 3-0, 4-3. In a star node 2 sends four halves to the hub.
  CHECK(detour_of(star_graph(5), kAlgoTree) == Detour{.relays = true, .load = 2, .extra_cables = 2});
  CHECK(detour_of(star_graph(5), kAlgoRing) == Detour{.relays = true, .load = 1, .extra_cables = 3});
  // The shortcut 1-3: 4-0 is 4-3-1-0, 3-0 is 3-1-0, 2-4 is 2-3-4.
  CHECK(detour_of(partial5_graph(), kAlgoTree) == Detour{.relays = true, .load = 1.5, .extra_cables = 3});
  CHECK(detour_of(partial5_graph(), kAlgoRing) == Detour{.relays = true, .load = 1, .extra_cables = 2});
  CHECK(detour_of(line_graph(4), kAlgoNvls) == Detour{});
}

TEST_CASE("where a ring relays too, each algorithm costs its load and its extra cables, twice for an all-reduce") {
  const TunerPrices prices(line_graph(4));
  const double each = extra_cable_us(1 << 20);
  const Table before = sample();
  const Table after = priced(prices, before);
  CHECK(after[kAlgoTree][2] == doctest::Approx(before[kAlgoTree][2] * 2 + 2 * 1 * each));
  CHECK(after[kAlgoNvlsTree][0] == doctest::Approx(before[kAlgoNvlsTree][0] * 2 + 2 * 1 * each));
  CHECK(after[kAlgoRing][2] == doctest::Approx(before[kAlgoRing][2] + 2 * 2 * each));
  CHECK(priced(prices, before, kAllGather)[kAlgoRing][2] == doctest::Approx(before[kAlgoRing][2] + 2 * each));
  CHECK(after[kAlgoCollNetChain] == before[kAlgoCollNetChain]);
  CHECK(extra_cable_us(0) == doctest::Approx(33));
  CHECK(extra_cable_us(8 << 20) == doctest::Approx(33 + 65536 / 12500.0));
}

TEST_CASE(
    "what NCCL ignores stays ignored; where the table has no ring nothing is dropped, for NCCL must take something") {
  Table table = sample();
  table[kAlgoTree][0] = kCostIgnore;
  Table after = priced(TunerPrices(line_graph(4)), table);
  CHECK(after[kAlgoTree][0] == kCostIgnore);
  table = sample();
  table[kAlgoRing].fill(kCostIgnore);  // NCCL_ALGO=Tree
  after = priced(TunerPrices(ring_graph(4)), table);
  CHECK(after[kAlgoRing][1] == kCostIgnore);
  CHECK(after[kAlgoTree][1] == doctest::Approx(table[kAlgoTree][1] * 1.5 + 2 * extra_cable_us(1 << 20)));
}

TEST_CASE("a table of fewer or more rows and columns is changed within its bounds") {
  const TunerPrices prices(ring_graph(4));
  std::array<float, 40> table{};
  table.fill(5);
  prices.apply({.collective = kAllReduce, .size_bytes = 8, .algorithms = 2, .protocols = 3}, table.data());
  for (std::size_t at = 0; at < table.size(); ++at) CHECK(table[at] == (at < 3 ? kCostIgnore : 5));
  table.fill(5);
  prices.apply({.collective = kAllReduce, .size_bytes = 8, .algorithms = 9, .protocols = 4}, table.data());
  for (std::size_t at = 0; at < table.size(); ++at) {
    const bool relayed = at < 4 || (at >= 20 && at < 28);  // Tree; NVLSTree and PAT; rows 7 and 8 are unknown
    CHECK(table[at] == (relayed ? kCostIgnore : 5));
  }
  prices.apply({.collective = kAllReduce, .size_bytes = 8, .algorithms = 0, .protocols = 0}, nullptr);
}

}  // namespace tuner_price_test
