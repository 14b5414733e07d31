#include "cli/bench/planner_cablings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "plugin/base/prng.h"

namespace meshbed::testbed {
namespace {

/// Lies over a line of five: as scenarios/partial5.toml.
constexpr const char* kShortcut =
    "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\naddresses = [\"192.168.110.1/24\"]\n"
    "[[node]]\nname = \"node3\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\naddresses = [\"192.168.110.2/24\"]\n"
    "[[cable]]\nends = [\"node1/rocep2s0f0\", \"node3/rocep2s0f0\"]\n";

struct GraphCable {
  int a = 0, b = 0, gigabits_per_s = 100;
};

struct Graph {
  int nodes = 0;
  std::vector<GraphCable> cables;
};

/// Each cable is its own subnet.
std::string toml_of(const Graph& graph) {
  std::vector<std::string> nics(static_cast<std::size_t>(graph.nodes));
  std::vector<int> used(nics.size());
  std::string cables;
  for (std::size_t index = 0; index < graph.cables.size(); ++index) {
    const GraphCable& cable = graph.cables[index];
    std::array<std::string, 2> ends;
    for (std::size_t end = 0; end < 2; ++end) {
      const auto node = static_cast<std::size_t>(end == 0 ? cable.a : cable.b);
      const std::string device = fmt::format("mlx5_{}", used[node]++);
      nics[node] +=
          fmt::format("[[node.nic]]\ndevice = \"{}\"\nrate = \"{}Gb/s\"\naddresses = [\"192.168.{}.{}/24\"]\n", device,
                      cable.gigabits_per_s, 100 + index, end + 1);
      ends[end] = fmt::format("node{}/{}", node, device);
    }
    cables += fmt::format("[[cable]]\nends = [\"{}\", \"{}\"]\n", ends[0], ends[1]);
  }
  std::string toml;
  for (std::size_t node = 0; node < nics.size(); ++node) {
    toml += fmt::format("[[node]]\nname = \"node{}\"\n{}", node, nics[node]);
  }
  return toml + cables;
}

/// As in a DGX-1, whose hybrid cube mesh has half of its cables double.
Graph cube_mesh() {
  return {8, {{0, 1}, {0, 2}, {0, 3}, {0, 3}, {0, 4}, {0, 4}, {1, 2}, {1, 2}, {1, 3}, {1, 5}, {1, 5}, {2, 3},
              {2, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {4, 7}, {4, 7}, {5, 6}, {5, 6}, {5, 7}, {6, 7}, {6, 7}}};
}

bool is_connected(const Graph& graph) {
  std::vector<bool> reached(static_cast<std::size_t>(graph.nodes));
  reached[0] = true;
  for (int pass = 1; pass < graph.nodes; ++pass) {
    for (const GraphCable& cable : graph.cables) {
      const auto a = static_cast<std::size_t>(cable.a), b = static_cast<std::size_t>(cable.b);
      reached[a] = reached[b] = reached[a] || reached[b];
    }
  }
  return std::all_of(reached.begin(), reached.end(), [](bool each) { return each; });
}

/// The same for all graphs that differ in the numbers of their nodes alone: the least list of cables of all orders.
/// Cost: nodes! times the cables.
std::vector<std::pair<int, int>> shape_of(const Graph& graph) {
  std::vector<int> order(static_cast<std::size_t>(graph.nodes));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::pair<int, int>> least;
  do {
    std::vector<std::pair<int, int>> cables;
    for (const GraphCable& cable : graph.cables) {
      const auto ends = std::minmax(order[static_cast<std::size_t>(cable.a)], order[static_cast<std::size_t>(cable.b)]);
      cables.emplace_back(ends);
    }
    std::sort(cables.begin(), cables.end());
    if (least.empty() || cables < least) least = std::move(cables);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

struct NamedGraph {
  std::string name;
  Graph graph;
};

std::vector<NamedGraph> standard_graphs(int nodes) {
  NamedGraph line{fmt::format("line{}", nodes), {nodes, {}}}, ring{fmt::format("ring{}", nodes), {nodes, {}}};
  NamedGraph star{fmt::format("star{}", nodes), {nodes, {}}}, full{fmt::format("full{}", nodes), {nodes, {}}};
  for (int node = 0; node < nodes; ++node) {
    if (node + 1 < nodes) line.graph.cables.push_back({node, node + 1});
    ring.graph.cables.push_back({node, (node + 1) % nodes});
    if (node > 0) star.graph.cables.push_back({0, node});
    for (int peer = node + 1; peer < nodes; ++peer) full.graph.cables.push_back({node, peer});
  }
  std::vector<NamedGraph> all{line, ring, star, full};
  if (nodes == 6) {
    const std::vector<GraphCable> prism{{0, 1}, {2, 3}, {4, 5}, {0, 2}, {2, 4}, {4, 0}, {1, 3}, {3, 5}, {5, 1}};
    all.push_back({"torus2x3", {nodes, prism}});
  }
  return all;
}

std::vector<NamedGraph> less_a_cable(int rails) {
  std::vector<NamedGraph> found;
  std::set<std::pair<int, std::vector<std::pair<int, int>>>> seen;
  for (int nodes = 3; nodes <= 6; ++nodes) {
    for (const NamedGraph& standard : standard_graphs(nodes)) {
      for (const GraphCable& missing : standard.graph.cables) {
        Graph graph{nodes, {}};
        for (const GraphCable& cable : standard.graph.cables) {
          const bool is_it = cable.a == missing.a && cable.b == missing.b;
          graph.cables.insert(graph.cables.end(), static_cast<std::size_t>(rails - (is_it ? 1 : 0)), cable);
        }
        if (!is_connected(graph) || !seen.emplace(nodes, shape_of(graph)).second) continue;
        found.push_back({fmt::format("{}-less-{}-{}", standard.name, missing.a, missing.b), std::move(graph)});
      }
    }
  }
  return found;
}

/// A random tree, and up to as many more cables as it has nodes, some beside others.
Graph random_graph(std::uint64_t number) {
  Prng prng(mix64(number));
  const auto draw = [&prng](int below) { return static_cast<int>(prng.below(static_cast<std::uint64_t>(below))); };
  constexpr std::array<int, 3> kRates{50, 100, 200};
  constexpr int kNodesLeast = 4, kNodesMost = 8, kMixedEvery = 3;
  Graph graph{kNodesLeast + draw(kNodesMost - kNodesLeast + 1), {}};
  const auto add = [&](int a, int b) {
    const bool mixed = number % kMixedEvery == 0;
    graph.cables.push_back({a, b, mixed ? kRates[static_cast<std::size_t>(draw(kRates.size()))] : 100});
  };
  for (int node = 1; node < graph.nodes; ++node) add(draw(node), node);
  for (int more = draw(graph.nodes + 1); more > 0; --more) {
    const int a = draw(graph.nodes);
    add(a, (a + 1 + draw(graph.nodes - 1)) % graph.nodes);
  }
  return graph;
}

/// What of a group there is, for each number of rails.
struct Candidate {
  std::string group, name;
  PlannerCabling cabling;
};

std::string with_rails(const std::string& name, int rails) {
  return fmt::format("{}, {} {}", name, rails, rails == 1 ? "rail" : "rails");
}

std::vector<Candidate> candidates(const std::vector<int>& rails) {
  const std::vector<std::pair<std::string, std::string>> generated{
      {"triangle", "kind = \"ring\"\nnodes = 3\n"},       {"ring4", "kind = \"ring\"\nnodes = 4\n"},
      {"ring5", "kind = \"ring\"\nnodes = 5\n"},          {"ring6", "kind = \"ring\"\nnodes = 6\n"},
      {"ring7", "kind = \"ring\"\nnodes = 7\n"},          {"ring8", "kind = \"ring\"\nnodes = 8\n"},
      {"line3", "kind = \"line\"\nnodes = 3\n"},          {"line4", "kind = \"line\"\nnodes = 4\n"},
      {"star5", "kind = \"star\"\nnodes = 5\n"},          {"switch8", "kind = \"switch\"\nnodes = 8\n"},
      {"torus3x3", "kind = \"torus\"\nshape = [3, 3]\n"}, {"torus2x8", "kind = \"torus\"\nshape = [2, 8]\n"},
      {"torus8x2", "kind = \"torus\"\nshape = [8, 2]\n"}};
  std::vector<Candidate> all;
  for (const auto& [name, toml] : generated) {
    for (const int count : rails) {
      all.push_back(
          {"standard", name, {with_rails(name, count), fmt::format("[topology]\n{}rails = {}\n", toml, count)}});
    }
  }
  const std::string room = "[management]\nsubnet = \"198.18.0.0/15\"\n";
  const std::vector<std::pair<std::string, std::string>> large{{"torus4x4x8", "kind = \"torus\"\nshape = [4, 4, 8]\n"},
                                                               {"torus8x16", "kind = \"torus\"\nshape = [8, 16]\n"},
                                                               {"ring128", "kind = \"ring\"\nnodes = 128\n"},
                                                               {"switch128", "kind = \"switch\"\nnodes = 128\n"}};
  const std::vector<std::pair<std::string, std::string>> huge{
      {"torus8x8x16", "kind = \"torus\"\nshape = [8, 8, 16]\n"},
      {"torus32x32", "kind = \"torus\"\nshape = [32, 32]\n"},
      {"ring1024", "kind = \"ring\"\nnodes = 1024\n"},
      {"switch1000", "kind = \"switch\"\nnodes = 1000\n"},
      {"switch1024", "kind = \"switch\"\nnodes = 1024\n"},
      {"leaf-spine960", "kind = \"leaf-spine\"\nnodes = 960\nleaves = 40\noversubscription = 2\n"}};
  for (const auto& [group, cablings] : {std::pair("large", large), std::pair("huge", huge)}) {
    for (const auto& [name, toml] : cablings) {
      all.push_back({group, name, {name, fmt::format("{}[topology]\n{}", room, toml)}});
    }
  }
  for (const PlannerCabling& cabling : planner_cablings()) {
    if (cabling.name == "partial5") all.push_back({"standard", cabling.name, cabling});
  }
  all.push_back({"standard", "cube-mesh", {"cube-mesh", toml_of(cube_mesh())}});
  for (const int count : rails) {
    for (const NamedGraph& each : less_a_cable(count)) {
      all.push_back({"less-a-cable", each.name, {with_rails(each.name, count), toml_of(each.graph)}});
    }
  }
  constexpr int kRandomGraphs = 20;
  for (int number = 1; number <= kRandomGraphs; ++number) {
    const std::string name = fmt::format("random{}", number);
    all.push_back({"random", name, {name, toml_of(random_graph(static_cast<std::uint64_t>(number)))}});
  }
  return all;
}

}  // namespace

const std::vector<PlannerCabling>& planner_cablings() {
  static const std::vector<PlannerCabling> all{
      {"triangle", "[topology]\nkind = \"ring\"\nnodes = 3\n"},
      {"ring4", "[topology]\nkind = \"ring\"\nnodes = 4\n"},
      {"line4", "[topology]\nkind = \"line\"\nnodes = 4\n"},
      {"ring8", "[topology]\nkind = \"ring\"\nnodes = 8\n"},
      {"partial5", std::string("[topology]\nkind = \"line\"\nnodes = 5\n") + kShortcut},
      {"star5", "[topology]\nkind = \"star\"\nnodes = 5\n"},
      {"dual-rail", "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n", 2},
  };
  return all;
}

std::vector<PlannerCabling> sweep_cablings(const std::vector<int>& rails, const std::vector<std::string>& names) {
  const std::vector<Candidate> all = candidates(rails);
  const auto is_named = [](const Candidate& each, const std::string& name) {
    return each.name == name || each.group == name;
  };
  for (const std::string& name : names) {
    if (std::any_of(all.begin(), all.end(), [&](const Candidate& each) { return is_named(each, name); })) continue;
    std::vector<std::string> known{"standard", "less-a-cable", "random", "large", "huge"};
    for (const Candidate& each : all) {
      if (std::find(known.begin(), known.end(), each.name) == known.end()) known.push_back(each.name);
    }
    throw std::runtime_error(fmt::format("--cablings {}: there are {}", name, fmt::join(known, ", ")));
  }
  std::vector<PlannerCabling> cablings;
  for (const Candidate& each : all) {
    const bool wanted =
        (names.empty() && each.group != "large" && each.group != "huge") ||
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return is_named(each, name); });
    if (wanted) cablings.push_back(each.cabling);
  }
  return cablings;
}

}  // namespace meshbed::testbed
