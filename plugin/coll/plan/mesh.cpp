#include "plugin/coll/plan/mesh.h"

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

constexpr double kNever = std::numeric_limits<double>::infinity();

/// [rank * ranks + rank] of each cable, with one tree more on it than now; kNever: no cable.
std::vector<double> next_loads(const Mesh& mesh, const std::vector<int>& crossings) {
  std::vector<double> loads(crossings.size(), kNever);
  for (std::size_t cable = 0; cable < loads.size(); ++cable) {
    const int mbps = mesh.cable_mbps[cable];
    if (mbps > 0) loads[cable] = static_cast<double>(crossings[cable] + 1) / mbps;
  }
  return loads;
}

/// A minimum spanning tree by `loads` (Prim's), grown from `top`; of equal cables the one nearest to it first. No
/// parents where not all ranks can be reached, or not at a depth below `depth_limit`.
Grown grow(const Mesh& mesh, const std::vector<double>& loads, int top, int depth_limit) {
  struct Offer {
    double load = kNever;
    int depth = 0, parent = -1;
  };
  std::vector<Offer> offers(static_cast<std::size_t>(mesh.ranks));
  std::vector<int> outside;  // not joined yet, in order
  for (int rank = 0; rank < mesh.ranks; ++rank) {
    if (rank != top) outside.push_back(rank);
  }
  Grown grown{.parents = std::vector<int>(offers.size(), -1)};
  for (int newest = top; !outside.empty();) {
    const int depth = offers[static_cast<std::size_t>(newest)].depth + 1;
    const double* const from_newest = &loads[at(mesh, newest, 0)];
    auto next = outside.end();
    for (auto each = outside.begin(); each != outside.end(); ++each) {
      Offer& offer = offers[static_cast<std::size_t>(*each)];
      const double load = from_newest[*each];
      if (load < offer.load || (load == offer.load && load < kNever && depth < offer.depth)) {
        offer = {.load = load, .depth = depth, .parent = newest};
      }
      if (offer.parent < 0) continue;
      if (next != outside.end()) {
        const Offer& best = offers[static_cast<std::size_t>(*next)];
        if (std::tie(offer.load, offer.depth) >= std::tie(best.load, best.depth)) continue;
      }
      next = each;
    }
    if (next == outside.end()) return {};
    newest = *next;
    outside.erase(next);
    const Offer& joined = offers[static_cast<std::size_t>(newest)];
    if (joined.depth >= depth_limit) return {};
    grown.parents[static_cast<std::size_t>(newest)] = joined.parent;
    grown.depth = std::max(grown.depth, joined.depth);
  }
  return grown;
}

/// The lowest one from whichever rank; the lowest such rank is its top. No branches where there is none.
MeshTree next_tree(const Mesh& mesh, std::vector<int>* crossings) {
  const std::vector<double> loads = next_loads(mesh, *crossings);
  Grown best{.parents = {}, .depth = mesh.ranks};
  MeshTree tree;
  for (int top = 0; top < mesh.ranks; ++top) {
    Grown grown = grow(mesh, loads, top, best.depth);
    if (grown.parents.empty()) continue;
    best = std::move(grown);
    tree.top = top;
  }
  if (best.parents.empty()) return {};
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

/// [rank] the next one on the way from there to `to`; -1 there.
std::vector<int> next_hops(const Mesh& mesh, int to) {
  std::vector<int> next(static_cast<std::size_t>(mesh.ranks), -1);
  std::deque<int> queue{to};
  for (; !queue.empty(); queue.pop_front()) {
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      if (rank == to || next[static_cast<std::size_t>(rank)] >= 0 || mesh.mbps(rank, queue.front()) == 0) continue;
      next[static_cast<std::size_t>(rank)] = queue.front();
      queue.push_back(rank);
    }
  }
  return next;
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
  double least = kNever;
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
  mesh.ways.resize(mesh.cable_mbps.size());
  for (int to = 0; to < ranks; ++to) {
    const std::vector<int> next = next_hops(mesh, to);
    for (int from = 0; from < ranks; ++from) {
      std::vector<int>& way = mesh.ways[at(mesh, from, to)];
      for (int rank = from; rank >= 0; rank = next[static_cast<std::size_t>(rank)]) way.push_back(rank);
    }
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
