#include "plugin/coll/plan/root_trees.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <set>

#include "plugin/base/check.h"
#include "plugin/base/units.h"
#include "plugin/coll/plan/plan.h"

namespace meshbed::coll {
namespace {

// What a cable carries in the time that one hop more costs a small slice: its latency, and itself once more.
constexpr double kHopBytes = 32.0 * kKiB;

/// How many more trees each cable may carry, [from * ranks + to].
struct Room {
  int ranks = 0;
  std::vector<int> trees;

  int& at(int from, int to) { return trees[static_cast<std::size_t>(from * ranks + to)]; }
};

/// Whether `wanted` trees could reach `to` from `from`: Ford's and Fulkerson's flow, each path found breadth first.
bool lets_through(Room room, int from, int to, int wanted) {
  for (int found = 0; found < wanted; ++found) {
    std::vector<int> before(static_cast<std::size_t>(room.ranks), -1);
    before[static_cast<std::size_t>(from)] = from;
    for (std::deque<int> queue{from}; !queue.empty() && before[static_cast<std::size_t>(to)] < 0; queue.pop_front()) {
      for (int rank = 0; rank < room.ranks; ++rank) {
        if (before[static_cast<std::size_t>(rank)] >= 0 || room.at(queue.front(), rank) == 0) continue;
        before[static_cast<std::size_t>(rank)] = queue.front();
        queue.push_back(rank);
      }
    }
    if (before[static_cast<std::size_t>(to)] < 0) return false;
    for (int rank = to; rank != from; rank = before[static_cast<std::size_t>(rank)]) {
      --room.at(before[static_cast<std::size_t>(rank)], rank);
      ++room.at(rank, before[static_cast<std::size_t>(rank)]);
    }
  }
  return true;
}

/// Of cables that carry so many Mb/s a tree.
Room room_for(const Mesh& mesh, double mbps_per_tree) {
  constexpr double kRounding = 1e-9;
  Room room{.ranks = mesh.ranks, .trees = {}};
  for (const int mbps : mesh.cable_mbps) room.trees.push_back(static_cast<int>(mbps / mbps_per_tree + kRounding));
  return room;
}

/// The most Mb/s that each of so many trees can have.
double widest(const Mesh& mesh, int root, int trees) {
  std::set<double> wanted;
  for (const int mbps : std::set<int>(mesh.cable_mbps.begin(), mesh.cable_mbps.end())) {
    for (int crossing = 1; crossing <= trees && mbps > 0; ++crossing) {
      wanted.insert(static_cast<double>(mbps) / crossing);
    }
  }
  const std::vector<double> rates(wanted.begin(), wanted.end());
  const auto narrowest_refused = std::partition_point(rates.begin(), rates.end(), [&](double rate) {
    const Room room = room_for(mesh, rate);
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      if (rank != root && !lets_through(room, root, rank, trees)) return false;
    }
    return true;
  });
  MESHBED_CHECK(narrowest_refused != rates.begin());  // all over the narrowest cable, where all hang together
  return *(narrowest_refused - 1);
}

/// One tree off `room`, which has room for `left` more behind it. A cable that cannot be spared now never can again, so
/// each is looked at once, those nearest to the root first.
MeshTree peel(Room* room, int root, int left, std::vector<int>* crossings) {
  MeshTree tree{.top = root, .branches = std::vector<std::vector<Branch>>(static_cast<std::size_t>(room->ranks))};
  std::vector<bool> joined(static_cast<std::size_t>(room->ranks));
  joined[static_cast<std::size_t>(root)] = true;
  int outside = room->ranks - 1;
  for (std::deque<int> queue{root}; !queue.empty() && outside > 0; queue.pop_front()) {
    const int from = queue.front();
    for (int to = 0; to < room->ranks; ++to) {
      if (joined[static_cast<std::size_t>(to)] || room->at(from, to) == 0) continue;
      --room->at(from, to);
      if (!lets_through(*room, root, to, left)) {
        ++room->at(from, to);
        continue;
      }
      const int way = (*crossings)[static_cast<std::size_t>(from * room->ranks + to)]++;
      tree.branches[static_cast<std::size_t>(from)].push_back({to, way});
      tree.branches[static_cast<std::size_t>(to)].push_back({from, way});
      joined[static_cast<std::size_t>(to)] = true;
      queue.push_back(to);
      --outside;
    }
  }
  MESHBED_CHECK(outside == 0);  // Lovasz
  for (auto& branches : tree.branches) {
    std::sort(branches.begin(), branches.end(), [](const Branch& a, const Branch& b) { return a.rank < b.rank; });
  }
  return tree;
}

std::vector<MeshTree> pack(const Mesh& mesh, int root, int trees, double mbps_per_tree) {
  Room room = room_for(mesh, mbps_per_tree);
  std::vector<int> crossings(mesh.cable_mbps.size());
  std::vector<MeshTree> packed;
  for (int left = trees - 1; left >= 0; --left) packed.push_back(peel(&room, root, left, &crossings));
  return packed;
}

int depth_of(const std::vector<MeshTree>& trees) {
  int depth = 0;
  for (const MeshTree& tree : trees) {
    const std::vector<int> distances = view_of(tree, tree.top).distances;
    depth = std::max(depth, *std::max_element(distances.begin(), distances.end()));
  }
  return depth;
}

/// Of many ranks, for which flows take too long: the all_reduce's trees, of which each cable has as much in either
/// direction, and that one of them which is the shallowest from the root.
RootTrees of_mesh(const Mesh& mesh, int root) {
  RootTrees result;
  result.packed = mesh.trees;
  std::vector<int> crossings(mesh.cable_mbps.size());
  double packed_ns = 0, one_ns = 0;  // for each byte, at 1 Mb/s
  std::vector<int> depths;
  for (const MeshTree& tree : mesh.trees) {
    depths.push_back(depth_of({MeshTree{.top = root, .branches = tree.branches}}));
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      for (const Branch& branch : tree.branches[static_cast<std::size_t>(rank)]) {
        const int crossing = ++crossings[static_cast<std::size_t>(rank * mesh.ranks + branch.rank)];
        const double mbps = mesh.mbps(rank, branch.rank);
        packed_ns = std::max(packed_ns, crossing / mbps / static_cast<double>(mesh.trees.size()));
        one_ns = std::max(one_ns, 1 / mbps);
      }
    }
  }
  const auto shallowest = std::min_element(depths.begin(), depths.end());
  const int deeper = *std::max_element(depths.begin(), depths.end()) - *shallowest;
  result.one = {mesh.trees[static_cast<std::size_t>(shallowest - depths.begin())]};
  for (auto& branches : result.one.front().branches) {
    for (Branch& branch : branches) branch.way = 0;
  }
  if (one_ns > packed_ns)
    result.packed_from_bytes = static_cast<std::uint64_t>(deeper * kHopBytes / (one_ns - packed_ns) * one_ns);
  return result;
}

}  // namespace

RootTrees root_trees(const Mesh& mesh, int root) {
  if (mesh.ranks > kEveryTopMost) return of_mesh(mesh, root);
  const double one_mbps = widest(mesh, root, 1);
  RootTrees result;
  result.one = result.packed = pack(mesh, root, 1, one_mbps);
  // One more tree, and as many more connections, must be worth it.
  constexpr double kWorthIt = 1.01;
  double all_mbps = one_mbps, each_mbps = one_mbps;
  int kept = 1;
  for (int trees = 2; trees <= kMeshTreesMax; ++trees) {
    const double mbps = widest(mesh, root, trees);
    if (mbps * trees < all_mbps * kWorthIt) continue;
    all_mbps = mbps * trees;
    each_mbps = mbps;
    kept = trees;
  }
  if (kept == 1) return result;
  result.packed = pack(mesh, root, kept, each_mbps);
  const int deeper = std::max(depth_of(result.packed) - depth_of(result.one), 0);
  result.packed_from_bytes = static_cast<std::uint64_t>(deeper * kHopBytes * all_mbps / (all_mbps - one_mbps));
  return result;
}

const std::vector<MeshTree>& trees_of(const PlanRequest& request) {
  if (request.collective != Collective::kBroadcast && request.collective != Collective::kReduce) {
    return request.mesh->trees;
  }
  MESHBED_CHECK(request.root_trees != nullptr);
  const RootTrees& trees = *request.root_trees;
  return request.count * request.element_bytes < trees.packed_from_bytes ? trees.one : trees.packed;
}

}  // namespace meshbed::coll
