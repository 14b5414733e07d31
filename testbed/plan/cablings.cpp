#include "testbed/plan/cablings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>

namespace meshbed::testbed::plan {
namespace {

/// Parallel cables of each pair of nodes.
class Multigraph {
 public:
  explicit Multigraph(int nodes) : nodes_(nodes), cables_(static_cast<std::size_t>(nodes * nodes), 0) {}
  int nodes() const { return nodes_; }
  int at(int one, int other) const { return cables_[index(one, other)]; }
  void add(int one, int other) { ++cables_[index(one, other)], ++cables_[index(other, one)]; }
  int degree(int node) const {
    int sum = 0;
    for (int other = 0; other < nodes_; ++other) sum += at(node, other);
    return sum;
  }
  std::vector<std::pair<int, int>> cables() const {
    std::vector<std::pair<int, int>> list;
    for (int one = 0; one < nodes_; ++one) {
      for (int other = one + 1; other < nodes_; ++other)
        list.insert(list.end(), static_cast<std::size_t>(at(one, other)), {one, other});
    }
    return list;
  }

 private:
  std::size_t index(int one, int other) const { return static_cast<std::size_t>(one * nodes_ + other); }
  int nodes_;
  std::vector<int> cables_;
};

Multigraph graph_of(const Cabling& cabling) {
  Multigraph graph(cabling.nodes);
  for (const auto& [one, other] : cabling.cables) graph.add(one, other);
  return graph;
}

using Colours = std::vector<int>;

/// Splits colours by how often a node's neighbours have each, until nothing splits. The numbers of colours depend on
/// the graph's shape only, not on the nodes' numbers.
Colours refined(const Multigraph& graph, Colours colours) {
  const int nodes = graph.nodes();
  for (std::size_t classes = 0;;) {
    using Signature = std::pair<int, std::vector<std::pair<int, int>>>;
    std::vector<Signature> signatures(static_cast<std::size_t>(nodes));
    for (int node = 0; node < nodes; ++node) {
      Signature& own = signatures[static_cast<std::size_t>(node)];
      own.first = colours[static_cast<std::size_t>(node)];
      for (int other = 0; other < nodes; ++other) {
        if (graph.at(node, other) > 0)
          own.second.emplace_back(colours[static_cast<std::size_t>(other)], graph.at(node, other));
      }
      std::sort(own.second.begin(), own.second.end());
    }
    std::set<Signature> ordered(signatures.begin(), signatures.end());
    for (int node = 0; node < nodes; ++node) {
      const auto found = ordered.find(signatures[static_cast<std::size_t>(node)]);
      colours[static_cast<std::size_t>(node)] = static_cast<int>(std::distance(ordered.begin(), found));
    }
    if (ordered.size() == classes) return colours;
    classes = ordered.size();
  }
}

/// The greatest list of parallel cables over all numberings that agree with the colours: the same for isomorphic
/// graphs. Of nodes that share a colour each in turn gets a colour of its own.
void find_canonical(const Multigraph& graph, const Colours& colours, std::vector<int>& best) {
  const int nodes = graph.nodes();
  std::vector<int> count(static_cast<std::size_t>(nodes) + 1, 0);
  for (const int colour : colours) ++count[static_cast<std::size_t>(colour)];
  for (int colour = 0; colour < nodes; ++colour) {
    if (count[static_cast<std::size_t>(colour)] < 2) continue;
    for (int node = 0; node < nodes; ++node) {
      if (colours[static_cast<std::size_t>(node)] != colour) continue;
      Colours split = colours;
      for (int& each : split) each *= 2;
      split[static_cast<std::size_t>(node)] -= 1;
      find_canonical(graph, refined(graph, split), best);
    }
    return;
  }
  std::vector<int> place(static_cast<std::size_t>(nodes));  // by colour: the node
  for (int node = 0; node < nodes; ++node)
    place[static_cast<std::size_t>(colours[static_cast<std::size_t>(node)])] = node;
  std::vector<int> list;
  for (int one = 0; one < nodes; ++one) {
    for (int other = one + 1; other < nodes; ++other)
      list.push_back(graph.at(place[static_cast<std::size_t>(one)], place[static_cast<std::size_t>(other)]));
  }
  best = std::max(best, list);
}

std::vector<int> canonical(const Multigraph& graph) {
  std::vector<int> best;
  find_canonical(graph, refined(graph, Colours(static_cast<std::size_t>(graph.nodes()), 0)), best);
  return best;
}

/// All graphs with at most `degree` cables a node, one for each class; by number of cables.
std::vector<Multigraph> graphs_of(int nodes, int degree, std::size_t most) {
  std::vector<Multigraph> all{Multigraph(nodes)};
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.size();
    std::set<std::vector<int>> known;  // with one cable more
    for (std::size_t index = begin; index < end; ++index) {
      for (int one = 0; one < nodes; ++one) {
        if (all[index].degree(one) == degree) continue;
        for (int other = one + 1; other < nodes; ++other) {
          if (all[index].degree(other) == degree) continue;
          Multigraph next = all[index];
          next.add(one, other);
          if (!known.insert(canonical(next)).second) continue;
          if (all.size() == most) {
            throw std::runtime_error(
                fmt::format("more than {} cablings of {} nodes; plan for fewer nodes or fewer NICs", most, nodes));
          }
          all.push_back(std::move(next));
        }
      }
    }
    begin = end;
  }
  return all;
}

/// Hops from `from` to each node; -1: not reached.
std::vector<int> hops_from(const Cabling& cabling, const Multigraph& graph, int from) {
  std::vector<int> hops(static_cast<std::size_t>(cabling.nodes), -1);
  hops[static_cast<std::size_t>(from)] = 0;
  std::vector<int> front{from};
  while (!front.empty()) {
    std::vector<int> next;
    for (const int node : front) {
      for (int other = 0; other < cabling.nodes; ++other) {
        const bool joined = graph.at(node, other) > 0 || cabling.switches > 0;
        if (!joined || hops[static_cast<std::size_t>(other)] >= 0) continue;
        hops[static_cast<std::size_t>(other)] = hops[static_cast<std::size_t>(node)] + 1;
        next.push_back(other);
      }
    }
    front = std::move(next);
  }
  return hops;
}

/// The name of a simple graph of that shape; empty: it has none.
std::string shape_of(const Multigraph& graph) {
  const int nodes = graph.nodes();
  int cables = 0, ends = 0, centres = 0, inner = 0;
  for (int node = 0; node < nodes; ++node) {
    const int degree = graph.degree(node);
    cables += degree;
    ends += degree == 1 ? 1 : 0;
    inner += degree == 2 ? 1 : 0;
    centres += degree == nodes - 1 ? 1 : 0;
  }
  cables /= 2;
  if (nodes == 2) return cables == 1 ? "pair" : "";
  if (cables == nodes && inner == nodes) return "ring";  // of a connected graph; three nodes' is also the full mesh
  if (cables == nodes - 1 && ends == 2 && inner == nodes - 2) return "line";
  if (cables == nodes - 1 && centres == 1 && ends == nodes - 1) return "star";
  return cables == nodes * (nodes - 1) / 2 && centres == nodes ? "full mesh" : "";
}

std::string cables_name(const Cabling& cabling) {
  const Multigraph graph = graph_of(cabling);
  std::set<int> parallel;
  Multigraph simple(cabling.nodes);
  for (int one = 0; one < cabling.nodes; ++one) {
    for (int other = one + 1; other < cabling.nodes; ++other) {
      if (graph.at(one, other) == 0) continue;
      parallel.insert(graph.at(one, other));
      simple.add(one, other);
    }
  }
  const Cabling alone{.nodes = cabling.nodes, .cables = cabling.cables};
  const std::string shape = alone.is_connected() && parallel.size() == 1 ? shape_of(simple) : "";
  if (!shape.empty()) return *parallel.begin() == 1 ? shape : fmt::format("{} x {}", shape, *parallel.begin());
  std::string text;
  for (const auto& [one, other] : cabling.cables) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", one, other);
  return text;
}

}  // namespace

int Cabling::nics_of(int node) const {
  return switches + static_cast<int>(std::count_if(cables.begin(), cables.end(), [&](const auto& cable) {
           return cable.first == node || cable.second == node;
         }));
}

std::size_t Cabling::cable_count() const { return cables.size() + static_cast<std::size_t>(switches * nodes); }

bool Cabling::is_connected() const {
  const std::vector<int> hops = hops_from(*this, graph_of(*this), 0);
  return std::find(hops.begin(), hops.end(), -1) == hops.end();
}

double Cabling::mean_distance() const {
  const Multigraph graph = graph_of(*this);
  int sum = 0;
  for (int node = 0; node < nodes; ++node) {
    for (const int hops : hops_from(*this, graph, node)) {
      if (hops < 0) return 0;
      sum += hops;
    }
  }
  return static_cast<double>(sum) / (nodes * (nodes - 1));
}

std::vector<Cabling> connected_cablings(int nodes, int nics, int switches_max, std::size_t most) {
  std::vector<Cabling> all;
  for (int switches = 0; switches <= std::min(switches_max, nics); ++switches) {
    for (const Multigraph& graph : graphs_of(nodes, nics - switches, most)) {
      Cabling cabling{.nodes = nodes, .cables = graph.cables(), .switches = switches};
      if (cabling.is_connected()) all.push_back(std::move(cabling));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Cabling& one, const Cabling& other) { return one.cable_count() < other.cable_count(); });
  return all;
}

std::string name_of(const Cabling& cabling) {
  const std::string switches = cabling.switches == 0   ? ""
                               : cabling.switches == 1 ? "switch"
                                                       : fmt::format("{} switches", cabling.switches);
  if (cabling.cables.empty()) return switches;
  return switches.empty() ? cables_name(cabling) : switches + " + " + cables_name(cabling);
}

}  // namespace meshbed::testbed::plan
