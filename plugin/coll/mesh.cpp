#include "plugin/coll/mesh.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <tuple>

namespace meshbed::coll {
namespace {

/// Parents of a spanning tree; -1: its top.
struct Grown {
  std::vector<int> parents;
  int depth = 0;
};

std::size_t at(const Mesh& mesh, int from, int to) { return static_cast<std::size_t>(from * mesh.ranks + to); }

/// A minimum spanning tree by load over rate (Prim's), grown from `top`; of equal cables the one nearest to it first.
/// No parents where not all ranks can be reached.
Grown grow(const Mesh& mesh, const std::vector<int>& crossings, int top) {
  struct Offer {
    double load = std::numeric_limits<double>::infinity();
    int depth = 0, parent = -1;
    bool joined = false;
  };
  std::vector<Offer> offers(static_cast<std::size_t>(mesh.ranks));
  Grown grown{.parents = std::vector<int>(offers.size(), -1)};
  int newest = top;
  for (int joined = 1;; ++joined) {
    Offer& here = offers[static_cast<std::size_t>(newest)];
    here.joined = true;
    grown.parents[static_cast<std::size_t>(newest)] = here.parent;
    grown.depth = std::max(grown.depth, here.depth);
    if (joined == mesh.ranks) return grown;
    int next = -1;
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      Offer& offer = offers[static_cast<std::size_t>(rank)];
      if (offer.joined) continue;
      if (mesh.mbps(newest, rank) > 0) {
        const double load = static_cast<double>(crossings[at(mesh, newest, rank)] + 1) / mesh.mbps(newest, rank);
        const Offer ours{.load = load, .depth = here.depth + 1, .parent = newest};
        if (std::tie(ours.load, ours.depth) < std::tie(offer.load, offer.depth)) offer = ours;
      }
      if (offer.parent < 0) continue;
      const Offer* best = next < 0 ? nullptr : &offers[static_cast<std::size_t>(next)];
      if (best == nullptr || std::tie(offer.load, offer.depth) < std::tie(best->load, best->depth)) next = rank;
    }
    if (next < 0) return {};
    newest = next;
  }
}

/// The lowest one from whichever rank; the lowest such rank is its top.
MeshTree next_tree(const Mesh& mesh, std::vector<int>* crossings) {
  Grown best;
  MeshTree tree;
  for (int top = 0; top < mesh.ranks; ++top) {
    Grown grown = grow(mesh, *crossings, top);
    if (grown.parents.empty()) return {};
    if (!best.parents.empty() && grown.depth >= best.depth) continue;
    best = std::move(grown);
    tree.top = top;
  }
  tree.branches.resize(static_cast<std::size_t>(mesh.ranks));
  for (int child = 0; child < mesh.ranks; ++child) {
    const int parent = best.parents[static_cast<std::size_t>(child)];
    if (parent < 0) continue;
    const int way = (*crossings)[at(mesh, child, parent)]++;
    (*crossings)[at(mesh, parent, child)] = way + 1;
    tree.branches[static_cast<std::size_t>(child)].push_back({parent, way});
    tree.branches[static_cast<std::size_t>(parent)].push_back({child, way});
  }
  for (auto& branches : tree.branches) {
    std::sort(branches.begin(), branches.end(), [](const Branch& a, const Branch& b) { return a.rank < b.rank; });
  }
  return tree;
}

std::vector<int> shortest_way(const Mesh& mesh, int from, int to) {
  std::vector<int> next(static_cast<std::size_t>(mesh.ranks), -1);  // towards `to`
  std::deque<int> queue{to};
  for (; !queue.empty() && next[static_cast<std::size_t>(from)] < 0; queue.pop_front()) {
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      if (rank == to || next[static_cast<std::size_t>(rank)] >= 0 || mesh.mbps(rank, queue.front()) == 0) continue;
      next[static_cast<std::size_t>(rank)] = queue.front();
      queue.push_back(rank);
    }
  }
  std::vector<int> way;
  for (int rank = from; rank >= 0; rank = next[static_cast<std::size_t>(rank)]) way.push_back(rank);
  return way;
}

double busiest(const Mesh& mesh, const std::vector<int>& crossings, std::size_t trees) {
  double most = 0;
  for (std::size_t cable = 0; cable < crossings.size(); ++cable) {
    if (crossings[cable] > 0) most = std::max(most, static_cast<double>(crossings[cable]) / mesh.cable_mbps[cable]);
  }
  return most / static_cast<double>(trees);
}

}  // namespace

Mesh make_mesh(int ranks, std::vector<int> cable_mbps) {
  Mesh mesh{.ranks = ranks, .cable_mbps = std::move(cable_mbps), .ways = {}, .trees = {}};
  std::vector<int> crossings(mesh.cable_mbps.size());
  // One more tree, and as many more connections, must be worth it.
  constexpr double kWorthIt = 0.99;
  double least = std::numeric_limits<double>::infinity();
  std::size_t kept = 0;
  while (ranks > 1 && !crossings.empty() && mesh.trees.size() < kMeshTreesMax) {
    MeshTree tree = next_tree(mesh, &crossings);
    if (tree.branches.empty()) return mesh;
    mesh.trees.push_back(std::move(tree));
    const double load = busiest(mesh, crossings, mesh.trees.size());
    if (load >= least * kWorthIt) continue;
    least = load;
    kept = mesh.trees.size();
  }
  mesh.trees.resize(kept);
  if (kept == 0) return mesh;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) mesh.ways.push_back(shortest_way(mesh, from, to));
  }
  return mesh;
}

std::vector<int> cables_among(const Mesh& mesh, const std::vector<int>& members) {
  std::vector<int> cables;
  if (mesh.cable_mbps.empty()) return cables;
  for (const int from : members) {
    for (const int to : members) cables.push_back(mesh.mbps(from, to));
  }
  return cables;
}

TreeView view_of(const MeshTree& tree, int rank) {
  TreeView view{.distances = std::vector<int>(tree.branches.size()),
                .toward = std::vector<int>(tree.branches.size(), -1)};
  struct Visit {
    int rank, from, branch;
  };
  std::deque<Visit> queue{{rank, -1, -1}};
  for (; !queue.empty(); queue.pop_front()) {
    const Visit here = queue.front();
    int index = 0;
    for (const Branch& branch : tree.branches[static_cast<std::size_t>(here.rank)]) {
      const int own_branch = here.branch < 0 ? index++ : here.branch;
      if (branch.rank == here.from) continue;
      const auto there = static_cast<std::size_t>(branch.rank);
      view.distances[there] = view.distances[static_cast<std::size_t>(here.rank)] + 1;
      view.toward[there] = own_branch;
      queue.push_back({branch.rank, here.rank, own_branch});
    }
  }
  return view;
}

}  // namespace meshbed::coll
