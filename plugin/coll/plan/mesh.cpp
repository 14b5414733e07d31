#include "plugin/coll/plan/mesh.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "plugin/base/prng.h"

namespace meshbed::coll {
namespace {

/// Parents of a spanning tree; -1: its top.
struct Grown {
  std::vector<int> parents;
  int depth = 0;
};

constexpr double kNever = std::numeric_limits<double>::infinity();

/// [as in `lists`] of each cable, with one tree more on it than now.
std::vector<double> next_loads(const CableLists& lists, const std::vector<int>& crossings) {
  std::vector<double> loads(lists.count());
  for (std::size_t each = 0; each < loads.size(); ++each) {
    loads[each] = static_cast<double>(crossings[each] + 1) / lists.mbps[each];
  }
  return loads;
}

/// A minimum spanning tree by `loads` (Prim's), grown from `top`; of equal cables the one nearest to it first. No
/// parents where not all ranks can be reached, or not at a depth below `depth_limit`.
Grown grow(const Mesh& mesh, const CableLists& lists, const std::vector<double>& loads, int top, int depth_limit) {
  struct Offer {
    double load = kNever;
    int depth = 0, parent = -1;
    bool joined = false;
  };
  std::vector<Offer> offers(static_cast<std::size_t>(mesh.ranks));
  using Candidate = std::tuple<double, int, int>;  // load, depth, rank; outdated where the offer is better by now
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  Grown grown{.parents = std::vector<int>(offers.size(), -1)};
  offers[static_cast<std::size_t>(top)].joined = true;
  int outside = mesh.ranks - 1;
  for (int newest = top; outside > 0; --outside) {
    const auto place = static_cast<std::size_t>(newest);
    const int depth = offers[place].depth + 1;
    for (std::size_t each = lists.begin[place]; each < lists.begin[place + 1]; ++each) {
      Offer& offer = offers[static_cast<std::size_t>(lists.peers[each])];
      const double load = loads[each];
      if (offer.joined || std::tie(load, depth) >= std::tie(offer.load, offer.depth)) continue;
      offer = {.load = load, .depth = depth, .parent = newest};
      candidates.emplace(load, depth, lists.peers[each]);
    }
    const auto is_outdated = [&](const Candidate& candidate) {
      const Offer& offer = offers[static_cast<std::size_t>(std::get<2>(candidate))];
      return offer.joined ||
             std::tie(std::get<0>(candidate), std::get<1>(candidate)) != std::tie(offer.load, offer.depth);
    };
    while (!candidates.empty() && is_outdated(candidates.top())) candidates.pop();
    if (candidates.empty()) return {};
    newest = std::get<2>(candidates.top());
    Offer& joins = offers[static_cast<std::size_t>(newest)];
    if (joins.depth >= depth_limit) return {};
    joins.joined = true;
    grown.parents[static_cast<std::size_t>(newest)] = joins.parent;
    grown.depth = std::max(grown.depth, joins.depth);
  }
  return grown;
}

/// The lowest one from whichever rank that is tried; the lowest such rank is its top. No branches where there is none.
MeshTree next_tree(const Mesh& mesh, std::vector<int>* crossings) {
  const CableLists& lists = mesh.cables;
  const std::vector<double> loads = next_loads(lists, *crossings);
  Grown best{.parents = {}, .depth = mesh.ranks};
  MeshTree tree;
  constexpr int kTopsOfMany = 8;
  int step = mesh.ranks <= kEveryTopMost ? 1 : mesh.ranks / kTopsOfMany;
  if (mesh.ranks > kWaysKeptMost) step = mesh.ranks;  // one: each rank of a job pays for itself
  for (int top = 0; top < mesh.ranks; top += step) {
    Grown grown = grow(mesh, lists, loads, top, best.depth);
    if (grown.parents.empty()) continue;
    best = std::move(grown);
    tree.top = top;
  }
  if (best.parents.empty()) return {};
  tree.branches.resize(static_cast<std::size_t>(mesh.ranks));
  for (int child = 0; child < mesh.ranks; ++child) {
    const int parent = best.parents[static_cast<std::size_t>(child)];
    if (parent < 0) continue;
    const std::size_t cable = lists.find(child, parent);
    const int way = (*crossings)[cable]++;
    (*crossings)[lists.back[cable]] = way + 1;
    tree.branches[static_cast<std::size_t>(child)].push_back({parent, way});
    tree.branches[static_cast<std::size_t>(parent)].push_back({child, way});
  }
  for (auto& branches : tree.branches) {
    std::sort(branches.begin(), branches.end(), [](const Branch& a, const Branch& b) { return a.rank < b.rank; });
  }
  return tree;
}

/// [rank] the next one on the way from there to `to`; -1 there.
std::vector<std::int16_t> next_hops(const Mesh& mesh, int to) {
  const CableLists& lists = mesh.cables;
  std::vector<std::int16_t> next(static_cast<std::size_t>(mesh.ranks), -1);
  std::deque<int> queue{to};
  for (; !queue.empty(); queue.pop_front()) {
    const auto place = static_cast<std::size_t>(queue.front());
    for (std::size_t each = lists.begin[place]; each < lists.begin[place + 1]; ++each) {
      const int rank = lists.peers[each];
      if (rank == to || next[static_cast<std::size_t>(rank)] >= 0) continue;
      next[static_cast<std::size_t>(rank)] = static_cast<std::int16_t>(queue.front());
      queue.push_back(rank);
    }
  }
  return next;
}

double busiest(const Mesh& mesh, const std::vector<int>& crossings, std::size_t trees) {
  double most = 0;
  for (std::size_t cable = 0; cable < crossings.size(); ++cable) {
    if (crossings[cable] > 0) most = std::max(most, static_cast<double>(crossings[cable]) / mesh.cables.mbps[cable]);
  }
  return most / static_cast<double>(trees);
}

struct Packing {
  std::vector<MeshTree> trees;
  double load = kNever;  // of the busiest cable
  double fill = kNever;  // of the cables, as a share of the data that goes by before all are in use: depth over trees
};

int depth_of(const MeshTree& tree) {
  const std::vector<int> distances = view_of(tree, tree.top).distances;
  return *std::max_element(distances.begin(), distances.end());
}

/// No trees where not all ranks hang together.
Packing pack(const Mesh& mesh) {
  std::vector<int> crossings(mesh.cables.count());
  // One more tree, and as many more connections, must be worth it.
  constexpr double kWorthIt = 0.99;
  Packing packing;
  std::size_t kept = 0;
  while (packing.trees.size() < kMeshTreesMax) {
    MeshTree tree = next_tree(mesh, &crossings);
    if (tree.branches.empty()) return {};
    packing.trees.push_back(std::move(tree));
    const double load = busiest(mesh, crossings, packing.trees.size());
    if (load >= packing.load * kWorthIt) continue;
    packing.load = load;
    kept = packing.trees.size();
  }
  packing.trees.resize(kept);
  int depth = 0;
  for (const MeshTree& tree : packing.trees) depth = std::max(depth, depth_of(tree));
  packing.fill = static_cast<double>(depth) / static_cast<double>(kept);
  return packing;
}

bool is_better(const Packing& one, const Packing& other) {
  constexpr double kAlike = 1e-3;
  if (one.load < other.load * (1 - kAlike)) return true;
  return one.load <= other.load * (1 + kAlike) && one.fill < other.fill * (1 - kAlike);
}

/// [rank] its colour: all equal at first, then refined by the colours of the neighbours and the cables to them, until
/// that distinguishes no more ranks. Numbers of colours follow from the graph alone, not from the numbers of ranks.
void refine(const Mesh& mesh, std::vector<int>& colours) {
  using Signature = std::pair<int, std::vector<std::pair<int, int>>>;
  const auto ranks = static_cast<std::size_t>(mesh.ranks);
  for (std::size_t known = 0;;) {
    std::vector<Signature> signatures(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      signatures[rank].first = colours[rank];
      for (std::size_t each = mesh.cables.begin[rank]; each < mesh.cables.begin[rank + 1]; ++each) {
        const auto peer = static_cast<std::size_t>(mesh.cables.peers[each]);
        signatures[rank].second.emplace_back(mesh.cables.mbps[each], colours[peer]);
      }
      std::sort(signatures[rank].second.begin(), signatures[rank].second.end());
    }
    std::vector<Signature> kinds = signatures;
    std::sort(kinds.begin(), kinds.end());
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      // Between two numbers there is room for one that is singled out.
      colours[rank] =
          2 * static_cast<int>(std::lower_bound(kinds.begin(), kinds.end(), signatures[rank]) - kinds.begin());
    }
    if (kinds.size() == known) return;
    known = kinds.size();
  }
}

/// The ranks in an order that follows from how they are cabled, so that of two tori that differ in their numbers alone
/// the same packings are found. Where several ranks are alike the lowest is singled out, again and again; where they
/// are alike only so far, the order is one of several, which costs nothing but that promise.
std::vector<int> order_by_shape(const Mesh& mesh) {
  const auto ranks = static_cast<std::size_t>(mesh.ranks);
  std::vector<int> colours(ranks, 0), order(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) order[rank] = static_cast<int>(rank);
  for (;;) {
    refine(mesh, colours);
    std::stable_sort(order.begin(), order.end(), [&](int left, int right) {
      return colours[static_cast<std::size_t>(left)] < colours[static_cast<std::size_t>(right)];
    });
    const auto alike = std::adjacent_find(order.begin(), order.end(), [&](int left, int right) {
      return colours[static_cast<std::size_t>(left)] == colours[static_cast<std::size_t>(right)];
    });
    if (alike == order.end()) return order;
    --colours[static_cast<std::size_t>(*alike)];
  }
}

/// What the greedy packing finds depends on the order in which ranks come: so many are tried, drawn from that one by
/// lot. Each costs up to n^3, and every rank of a job pays for itself.
int orders_tried(int ranks) {
  constexpr std::int64_t kMost = 24, kWork = 1 << 17;
  const std::int64_t n = ranks;
  return static_cast<int>(std::min(kMost, kWork / (n * n * n)));
}

/// Rank i of it is rank order[i] of `mesh`.
Mesh reordered(const Mesh& mesh, const std::vector<int>& order) {
  return {.ranks = mesh.ranks,
          .cables = cable_lists(mesh.ranks, cables_among(mesh, order)),
          .rank_mbps = {},
          .next = {},
          .trees = {}};
}

/// Back: trees of reordered()'s ranks as ones of the mesh's own.
Packing renamed(Packing packing, const std::vector<int>& order) {
  for (MeshTree& tree : packing.trees) {
    std::vector<std::vector<Branch>> branches(tree.branches.size());
    for (std::size_t place = 0; place < tree.branches.size(); ++place) {
      std::vector<Branch>& mine = branches[static_cast<std::size_t>(order[place])];
      mine = std::move(tree.branches[place]);
      for (Branch& branch : mine) branch.rank = order[static_cast<std::size_t>(branch.rank)];
      std::sort(mine.begin(), mine.end(), [](const Branch& a, const Branch& b) { return a.rank < b.rank; });
    }
    tree.branches = std::move(branches);
    tree.top = order[static_cast<std::size_t>(tree.top)];
  }
  return packing;
}

}  // namespace

std::size_t CableLists::find(int from, int to) const {
  const auto first = peers.begin() + static_cast<std::ptrdiff_t>(begin[static_cast<std::size_t>(from)]);
  const auto last = peers.begin() + static_cast<std::ptrdiff_t>(begin[static_cast<std::size_t>(from) + 1]);
  const auto found = std::lower_bound(first, last, to);
  return found == last || *found != to ? kNone : static_cast<std::size_t>(found - peers.begin());
}

CableLists cable_lists(int ranks, const std::vector<MeshCable>& cables) {
  std::vector<std::tuple<int, int, int>> ends;  // from, to, Mb/s
  for (const MeshCable& cable : cables) {
    if (cable.mbps == 0) continue;
    ends.emplace_back(cable.a, cable.b, cable.mbps);
    ends.emplace_back(cable.b, cable.a, cable.mbps);
  }
  std::sort(ends.begin(), ends.end());
  CableLists lists;
  lists.begin.assign(static_cast<std::size_t>(ranks) + 1, 0);
  for (std::size_t each = 0; each < ends.size(); ++each) {
    const auto& [from, to, mbps] = ends[each];
    if (each > 0 && std::get<0>(ends[each - 1]) == from && std::get<1>(ends[each - 1]) == to) {
      lists.mbps.back() += mbps;
      continue;
    }
    lists.peers.push_back(to);
    lists.mbps.push_back(mbps);
    ++lists.begin[static_cast<std::size_t>(from) + 1];
  }
  for (std::size_t rank = 1; rank < lists.begin.size(); ++rank) lists.begin[rank] += lists.begin[rank - 1];
  // By rank and peer: the cables of a rank are met in the order of their other ends.
  std::vector<std::size_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (const int peer : lists.peers) lists.back.push_back(next[static_cast<std::size_t>(peer)]++);
  return lists;
}

std::vector<int> Mesh::way(int from, int to, int hops_most) const {
  std::vector<int> ranks_on_way;
  if (!next.empty()) {
    for (int rank = from; rank != to;) ranks_on_way.push_back(rank = next_on_way(rank, to));
    return ranks_on_way;
  }
  // From its end, so that of ways that are as short it is the one of the lowest ranks, as next_hops() finds it.
  std::map<int, std::pair<int, int>> reached{{to, {-1, 0}}};  // rank: the next one, cables from here
  std::deque<int> queue{to};
  for (; !queue.empty() && reached.count(from) == 0; queue.pop_front()) {
    const int rank = queue.front(), hops_there = reached[rank].second;
    if (hops_there == hops_most) break;
    for (std::size_t each = cables.begin[static_cast<std::size_t>(rank)];
         each < cables.begin[static_cast<std::size_t>(rank) + 1]; ++each) {
      if (reached.emplace(cables.peers[each], std::pair(rank, hops_there + 1)).second) {
        queue.push_back(cables.peers[each]);
      }
    }
  }
  if (reached.count(from) == 0) return {};
  for (int rank = from; rank != to;) ranks_on_way.push_back(rank = reached[rank].first);
  return ranks_on_way;
}

Mesh make_mesh(int ranks, const std::vector<MeshCable>& cables, std::vector<int> rank_mbps) {
  Mesh mesh{
      .ranks = ranks, .cables = cable_lists(ranks, cables), .rank_mbps = std::move(rank_mbps), .next = {}, .trees = {}};
  if (ranks < 2 || cables.empty()) return mesh;
  Packing best = pack(mesh);
  if (best.trees.empty()) return mesh;
  int tries = orders_tried(ranks);
  std::vector<int> order;
  if (tries > 0) order = order_by_shape(mesh);
  Prng prng(static_cast<std::uint64_t>(ranks));
  for (; tries > 0; --tries) {
    Packing other = renamed(pack(reordered(mesh, order)), order);
    if (is_better(other, best)) best = std::move(other);
    for (std::size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[static_cast<std::size_t>(prng.below(left))]);
    }
  }
  mesh.trees = std::move(best.trees);
  if (ranks > kWaysKeptMost) return mesh;
  const auto width = static_cast<std::size_t>(ranks);
  mesh.next.resize(width * width);
  for (int to = 0; to < ranks; ++to) {
    const std::vector<std::int16_t> next = next_hops(mesh, to);
    for (std::size_t from = 0; from < width; ++from) {
      mesh.next[from * width + static_cast<std::size_t>(to)] = next[from];
    }
  }
  return mesh;
}

std::vector<MeshCable> cables_of_matrix(int ranks, const std::vector<int>& cable_mbps) {
  std::vector<MeshCable> cables;
  if (cable_mbps.empty()) return cables;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      const int mbps =
          cable_mbps[static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(b)];
      if (mbps > 0) cables.push_back({a, b, mbps});
    }
  }
  return cables;
}

std::vector<int> matrix_of_cables(const Mesh& mesh) {
  const auto width = static_cast<std::size_t>(mesh.ranks);
  std::vector<int> cable_mbps(width * width);
  for (std::size_t rank = 0; rank < width; ++rank) {
    for (std::size_t each = mesh.cables.begin[rank]; each < mesh.cables.begin[rank + 1]; ++each) {
      cable_mbps[rank * width + static_cast<std::size_t>(mesh.cables.peers[each])] = mesh.cables.mbps[each];
    }
  }
  return cable_mbps;
}

std::vector<MeshCable> cables_among(const Mesh& mesh, const std::vector<int>& members) {
  std::vector<int> place(static_cast<std::size_t>(mesh.ranks), -1);
  for (std::size_t at = 0; at < members.size(); ++at)
    place[static_cast<std::size_t>(members[at])] = static_cast<int>(at);
  std::vector<MeshCable> cables;
  for (int rank = 0; rank < mesh.ranks; ++rank) {
    const int own = place[static_cast<std::size_t>(rank)];
    for (std::size_t each = mesh.cables.begin[static_cast<std::size_t>(rank)];
         own >= 0 && each < mesh.cables.begin[static_cast<std::size_t>(rank) + 1]; ++each) {
      const int other = place[static_cast<std::size_t>(mesh.cables.peers[each])];
      if (other > own) cables.push_back({own, other, mesh.cables.mbps[each]});
    }
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
