// Switched networks of several boxes: generated fabrics, and the ways of flows through them.
#include "models/lan/trunks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trunks_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

Switch with_ports(int ports) {
  Switch network{.name = "net", .ports = {}, .rate_bps = 100'000'000'000};
  for (int node = 0; node < ports; ++node) network.ports.push_back({node, 0});
  return network;
}

Switch fabric(int ports, FabricOptions options) {
  Switch network = with_ports(ports);
  if (options.uplink_rate_bps == 0) options.uplink_rate_bps = network.rate_bps;
  const auto joined = join_boxes(network, options, "");
  REQUIRE_MESSAGE(joined, joined.error().text);
  return network;
}

std::string problem(int ports, FabricOptions options) {
  Switch network = with_ports(ports);
  options.uplink_rate_bps = network.rate_bps;
  const auto joined = join_boxes(network, options, "");
  return joined ? "" : joined.error().text;
}

std::string text_of(const Switch& network, const std::vector<TrunkHop>& way, int from) {
  std::string text = network.boxes[static_cast<std::size_t>(from)];
  for (const TrunkHop& hop : way) {
    const Trunk& trunk = network.trunks[static_cast<std::size_t>(hop.trunk)];
    text += " " + network.boxes[static_cast<std::size_t>(hop.forward ? trunk.b : trunk.a)];
  }
  return text;
}

}  // namespace

TEST_CASE("leaf-spine: nodes are spread over the leaves, and each leaf has its uplinks to each spine") {
  const Switch network = fabric(8, {.kind = FabricKind::kLeafSpine, .leaves = 4, .spines = 2});
  CHECK(network.boxes == std::vector<std::string>{"leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"});
  CHECK(network.box_of_port == std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(network.trunks.size() == 8);
  CHECK(network.trunks[0].name == "leaf0-spine0");
  CHECK(fabric(7, {.kind = FabricKind::kLeafSpine, .leaves = 3, .spines = 1}).box_of_port ==
        std::vector<int>{0, 0, 0, 1, 1, 2, 2});
  CHECK(fabric(8, {.kind = FabricKind::kLeafSpine, .leaves = 2, .spines = 2, .uplinks = 3}).trunks.size() == 12);
  // Eight nodes a leaf at 100 Gb/s: two to one leaves 400 Gb/s, which are two spines of two 100 Gb/s uplinks.
  CHECK(fabric(16, {.kind = FabricKind::kLeafSpine, .leaves = 2, .oversubscription = 2, .uplinks = 2}).boxes.size() ==
        4);
  CHECK(fabric(16,
               {.kind = FabricKind::kLeafSpine, .leaves = 2, .oversubscription = 1, .uplink_rate_bps = 400'000'000'000})
            .boxes.size() == 4);
}

TEST_CASE("fat tree: k pods, k^3/4 nodes; with oversubscription as many more at its lowest boxes") {
  CHECK(fat_tree_nodes({.arity = 4}) == 16);
  CHECK(fat_tree_nodes({.arity = 48}) == 27'648);
  CHECK(fat_tree_nodes({.oversubscription = 3, .arity = 4}) == 48);
  const Switch network = fabric(16, {.kind = FabricKind::kFatTree, .arity = 4});
  CHECK(network.boxes.size() == 20);
  CHECK(network.trunks.size() == 32);
  // Every box has k ports at most: trunks and nodes.
  std::map<int, int> used;
  for (const Trunk& trunk : network.trunks) {
    ++used[trunk.a];
    ++used[trunk.b];
  }
  for (const int box : network.box_of_port) ++used[box];
  for (const auto& [box, ports] : used) CHECK(ports == 4);
  TrunkRoutes routes(network);
  CHECK(routes.all_joined());
  CHECK(routes.way(0, 1, 1).size() == 2);  // within a pod
  CHECK(routes.way(0, 2, 1).size() == 4);  // by a core
}

TEST_CASE("dragonfly: three trunks are enough between any two boxes") {
  const Switch network = fabric(32, {.kind = FabricKind::kDragonfly, .groups = 5, .boxes = 4});
  CHECK(network.boxes.size() == 20);
  CHECK(network.trunks.size() == 5 * 6 + 10);
  TrunkRoutes routes(network);
  for (int from = 0; from < 20; ++from) {
    for (int to = 0; to < 20; ++to) CHECK(routes.way(from, to, 7).size() <= (from / 4 == to / 4 ? 1 : 3));
  }
}

TEST_CASE("a flow keeps its way, flows are spread over equal ones, and every way is a shortest one") {
  const Switch network = fabric(16, {.kind = FabricKind::kLeafSpine, .leaves = 4, .spines = 4});
  TrunkRoutes routes(network), again(network);
  std::map<std::string, int> used;
  constexpr int kFlows = 4000;
  for (std::uint64_t flow = 0; flow < kFlows; ++flow) {
    const std::string way = text_of(network, routes.way(0, 3, flow), 0);
    CHECK(way == text_of(network, again.way(0, 3, flow), 0));
    ++used[way];
  }
  REQUIRE(used.size() == 4);
  for (const auto& [way, flows] : used) CHECK_MESSAGE(std::abs(flows - kFlows / 4) < kFlows / 20, way);
  CHECK(routes.way(2, 2, 5).empty());
  // In a fat tree the choice at the second box is independent of that at the first.
  const Switch tree = fabric(16, {.kind = FabricKind::kFatTree, .arity = 4});
  TrunkRoutes tree_routes(tree);
  std::set<std::string> ways;
  for (std::uint64_t flow = 0; flow < 200; ++flow) ways.insert(text_of(tree, tree_routes.way(0, 7, flow), 0));
  CHECK(ways.size() == 4);
}

TEST_CASE("a network that is not joined is seen, and options that do not fit are named") {
  Switch network = fabric(4, {.kind = FabricKind::kLeafSpine, .leaves = 2, .spines = 1});
  network.trunks.pop_back();
  CHECK_FALSE(TrunkRoutes(network).all_joined());
  CHECK(problem(4, {.kind = FabricKind::kLeafSpine}).rfind("leaves: a leaf-spine fabric needs leaves", 0) == 0);
  CHECK(problem(4, {.kind = FabricKind::kLeafSpine, .leaves = 5, .spines = 1}).rfind("leaves: 5 for 4 nodes", 0) == 0);
  CHECK(problem(4, {.kind = FabricKind::kLeafSpine, .leaves = 2}).rfind("spines: ", 0) == 0);
  CHECK(problem(17, {.kind = FabricKind::kFatTree, .arity = 4})
            .rfind("nodes: 17 on a fat tree that has room for 16", 0) == 0);
  CHECK(problem(4, {.kind = FabricKind::kFatTree, .arity = 3}).rfind("arity: ", 0) == 0);
  CHECK(problem(4, {.kind = FabricKind::kDragonfly, .boxes = 2}).rfind("groups: ", 0) == 0);
  CHECK(problem(4, {.kind = FabricKind::kDragonfly, .groups = 2}).rfind("boxes: ", 0) == 0);
  CHECK(problem(4, {.kind = FabricKind::kFatTree, .arity = 1000}).rfind("kind: ", 0) == 0);
}

}  // namespace trunks_test
