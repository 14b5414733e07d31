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

/// How many more trees each cable may carry in each direction, as in `lists`.
struct Room {
  const CableLists* lists = nullptr;
  std::vector<int> trees;

  int ranks() const { return static_cast<int>(lists->begin.size()) - 1; }
  std::size_t begin(int rank) const { return lists->begin[static_cast<std::size_t>(rank)]; }
  std::size_t end(int rank) const { return lists->begin[static_cast<std::size_t>(rank) + 1]; }
};

/// Whether `wanted` trees could reach `to` from `from`: Ford's and Fulkerson's flow, each path found breadth first.
bool lets_through(Room room, int from, int to, int wanted) {
  constexpr std::size_t kNone = ~std::size_t{0};
  const auto ranks = static_cast<std::size_t>(room.ranks());
  std::vector<std::size_t> by(ranks);  // [rank] the cable on which it was reached
  std::vector<int> queue;
  for (int found = 0; found < wanted; ++found) {
    std::fill(by.begin(), by.end(), kNone);
    queue.assign(1, from);
    for (std::size_t next = 0; next < queue.size() && by[static_cast<std::size_t>(to)] == kNone; ++next) {
      for (std::size_t cable = room.begin(queue[next]); cable < room.end(queue[next]); ++cable) {
        const int rank = room.lists->peers[cable];
        if (rank == from || by[static_cast<std::size_t>(rank)] != kNone || room.trees[cable] == 0) continue;
        by[static_cast<std::size_t>(rank)] = cable;
        queue.push_back(rank);
      }
    }
    if (by[static_cast<std::size_t>(to)] == kNone) return false;
    for (int rank = to; rank != from;) {
      const std::size_t cable = by[static_cast<std::size_t>(rank)], back = room.lists->back[cable];
      --room.trees[cable];
      ++room.trees[back];
      rank = room.lists->peers[back];
    }
  }
  return true;
}

/// Of cables that carry so many Mb/s a tree.
Room room_for(const CableLists& lists, double mbps_per_tree) {
  constexpr double kRounding = 1e-9;
  Room room{.lists = &lists, .trees = {}};
  for (const int mbps : lists.mbps) room.trees.push_back(static_cast<int>(mbps / mbps_per_tree + kRounding));
  return room;
}

/// Whether all ranks are reached over cables with room.
bool reaches_all(const Room& room, int root) {
  std::vector<bool> joined(static_cast<std::size_t>(room.ranks()));
  joined[static_cast<std::size_t>(root)] = true;
  std::vector<int> queue{root};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (std::size_t cable = room.begin(queue[next]); cable < room.end(queue[next]); ++cable) {
      const auto rank = static_cast<std::size_t>(room.lists->peers[cable]);
      if (joined[rank] || room.trees[cable] == 0) continue;
      joined[rank] = true;
      queue.push_back(room.lists->peers[cable]);
    }
  }
  return queue.size() == joined.size();
}

/// The most Mb/s that each of so many trees can have.
double widest(const CableLists& lists, int root, int trees) {
  std::set<double> wanted;
  for (const int mbps : std::set<int>(lists.mbps.begin(), lists.mbps.end())) {
    for (int crossing = 1; crossing <= trees; ++crossing) {
      wanted.insert(static_cast<double>(mbps) / crossing);
    }
  }
  const std::vector<double> rates(wanted.begin(), wanted.end());
  const auto narrowest_refused = std::partition_point(rates.begin(), rates.end(), [&](double rate) {
    const Room room = room_for(lists, rate);
    if (trees == 1) return reaches_all(room, root);
    for (int rank = 0; rank < room.ranks(); ++rank) {
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
  const auto ranks = static_cast<std::size_t>(room->ranks());
  MeshTree tree{.top = root, .branches = std::vector<std::vector<Branch>>(ranks)};
  std::vector<bool> joined(ranks);
  joined[static_cast<std::size_t>(root)] = true;
  std::size_t outside = ranks - 1;
  for (std::deque<int> queue{root}; !queue.empty() && outside > 0; queue.pop_front()) {
    const int from = queue.front();
    for (std::size_t cable = room->begin(from); cable < room->end(from); ++cable) {
      const int to = room->lists->peers[cable];
      if (joined[static_cast<std::size_t>(to)] || room->trees[cable] == 0) continue;
      --room->trees[cable];
      if (left > 0 && !lets_through(*room, root, to, left)) {
        ++room->trees[cable];
        continue;
      }
      const int way = (*crossings)[cable]++;
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

std::vector<MeshTree> pack(const CableLists& lists, int root, int trees, double mbps_per_tree) {
  Room room = room_for(lists, mbps_per_tree);
  std::vector<int> crossings(lists.peers.size());
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

}  // namespace

RootTrees root_trees(const Mesh& mesh, int root) {
  const CableLists& lists = mesh.cables;
  const double one_mbps = widest(lists, root, 1);
  RootTrees result;
  result.one = result.packed = pack(lists, root, 1, one_mbps);
  // One more tree, and as many more connections, must be worth it.
  constexpr double kWorthIt = 1.01;
  if (mesh.ranks > kWaysKeptMost) return result;  // flows between so many cost too much
  double all_mbps = one_mbps, each_mbps = one_mbps;
  int kept = 1;
  for (int trees = 2; trees <= kMeshTreesMax; ++trees) {
    const double mbps = widest(lists, root, trees);
    if (mbps * trees < all_mbps * kWorthIt) continue;
    all_mbps = mbps * trees;
    each_mbps = mbps;
    kept = trees;
  }
  if (kept == 1) return result;
  result.packed = pack(lists, root, kept, each_mbps);
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
