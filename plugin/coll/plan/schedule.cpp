#include "plugin/coll/plan/schedule.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "plugin/base/units.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule_torus.h"
#include "plugin/coll/plan/torus_shape.h"
#include "plugin/coll/plan/transfer_list.h"

namespace meshbed::coll {
namespace {

// Partial results that lie in memory of their own: room for a few of the largest slices, small beside any buffer that
// needs more rounds than one.
constexpr std::uint64_t kWorkBytes = 4 * 1024 * kKiB;

// A tree's share travels in more and smaller slices than a ring's chunk: its first one must have come up and gone down
// before the cables are all in use. Trees that share no cable are deep ones.
constexpr std::uint64_t kMeshSlices = 32, kRootedSlices = 64, kMeshSliceFloorBytes = 16 * kKiB;

bool is_rooted(const PlanRequest& request) {
  return request.collective == Collective::kBroadcast || request.collective == Collective::kReduce;
}

/// Fills a round's list.
class Lister : TransferList {
 public:
  explicit Lister(Schedule& schedule) : TransferList(schedule) { schedule_.transfers.clear(); }

  void list() {
    if (request_.ranks == 1) return;
    const bool rooted = request_.collective != Collective::kAllReduce;
    if (schedule_.algorithm == Algorithm::kMesh) {
      for (std::size_t which = 0; which < trees_of(request_).size(); ++which) mesh_tree(which);
    } else if (schedule_.algorithm == Algorithm::kHalvingDoubling) {
      halve_and_double();
    } else if (schedule_.algorithm == Algorithm::kDirect) {
      direct();
    } else if (schedule_.algorithm == Algorithm::kTorus) {
      list_torus(schedule_);
    } else if (rooted) {
      tree(rooted_tree(request_.root, request_.rank, request_.ranks), 0, schedule_.round);
    } else {
      for (int which = 0; which < 2; ++which) {
        Range half = part_of(schedule_.round.count, 2, static_cast<std::uint64_t>(which));
        half.begin += schedule_.round.begin;
        tree(paired_tree(which, request_.rank, request_.ranks), which, half);
      }
    }
  }

 private:
  bool has_children(int rank, int way) const {
    return (request_.collective == Collective::kAllReduce ? paired_tree(way, rank, request_.ranks)
                                                          : rooted_tree(request_.root, rank, request_.ranks))
               .first >= 0;
  }

  void tree(const TreeNode& node, int way, const Range& range) {
    if (request_.collective != Collective::kBroadcast) {
      BufferRole own = BufferRole::kInput;
      for (const int child : {node.first, node.second}) {
        if (child < 0) continue;
        const bool is_last = child == node.second || node.second < 0;
        const BufferRole to = is_last && node.parent < 0 ? BufferRole::kOutput : BufferRole::kWork;
        reduce(child, way, range, has_children(child, way), own, to);
        own = to;
      }
      if (node.parent >= 0) send(node.parent, way, range, own);
    }
    if (request_.collective == Collective::kReduce) return;
    if (node.parent >= 0) store(node.parent, way, range);
    const bool is_source = node.parent < 0 && request_.collective == Collective::kBroadcast;
    for (const int child : {node.first, node.second}) {
      if (child >= 0) send(child, way, range, is_source ? BufferRole::kInput : BufferRole::kOutput);
    }
  }

  void halve_and_double() {
    int power = 1, steps = 0;
    for (; 2 * power <= request_.ranks; power *= 2) ++steps;
    const int folded = request_.ranks - power;  // so many pairs of which one rank acts for both
    const int rank = request_.rank;
    Range range = schedule_.round;
    const bool is_folded = rank < 2 * folded;
    if (is_folded && rank % 2 == 0) {
      send(rank + 1, 0, range, BufferRole::kInput);
      return store(rank + 1, 0, range);
    }
    BufferRole own = BufferRole::kInput;
    if (is_folded) {
      reduce(rank - 1, 0, range, false, own, BufferRole::kWork);
      own = BufferRole::kWork;
    }
    const int position = is_folded ? rank / 2 : rank - folded;
    std::array<Range, kStepsMax> given;
    for (int step = 0; step < steps; ++step) {
      const int partner = position ^ (1 << step);
      const Range lower = part_of(range.count, 2, 0), upper = part_of(range.count, 2, 1);
      const bool keeps_lower = position < partner;
      const Range& give = keeps_lower ? upper : lower;
      given[static_cast<std::size_t>(step)] = {range.begin + give.begin, give.count};
      range = {range.begin + (keeps_lower ? 0 : upper.begin), keeps_lower ? lower.count : upper.count};
      send(halving_rank(partner, folded), 0, given[static_cast<std::size_t>(step)], own);
      const BufferRole to = step + 1 == steps ? BufferRole::kOutput : BufferRole::kWork;
      reduce(halving_rank(partner, folded), 0, range, step > 0 || partner < folded, own, to);
      own = to;
    }
    for (int step = steps - 1; step >= 0; --step) {
      const int peer = halving_rank(position ^ (1 << step), folded);
      const Range& other = given[static_cast<std::size_t>(step)];
      send(peer, 0, range, BufferRole::kOutput);
      store(peer, 0, other);
      range = {std::min(range.begin, other.begin), range.count + other.count};
    }
    if (is_folded) send(rank - 1, 0, range, BufferRole::kOutput);
  }

  /// What of this round `rank` reduces, or gives.
  Range share_of(int rank) const {
    const auto at = static_cast<std::uint64_t>(rank);
    if (has_blocks(request_)) return {at * request_.count + schedule_.round.begin, schedule_.round.count};
    Range chunk = part_of(schedule_.round.count, static_cast<std::uint64_t>(request_.ranks), at);
    chunk.begin += schedule_.round.begin;
    return chunk;
  }

  void direct() {
    const Range own_share = share_of(request_.rank);
    const bool gathers_only = request_.collective == Collective::kAllGather;
    BufferRole own = BufferRole::kInput;
    for (int step = 1; step < request_.ranks && !gathers_only; ++step) {
      const int from = (request_.rank + step) % request_.ranks;
      const int to = (request_.rank - step + request_.ranks) % request_.ranks;
      const BufferRole result = step + 1 == request_.ranks ? BufferRole::kOutput : BufferRole::kWork;
      send(to, 0, share_of(to), BufferRole::kInput);
      reduce(from, 0, own_share, false, own, result);
      own = result;
    }
    for (int step = 1; step < request_.ranks && request_.collective != Collective::kReduceScatter; ++step) {
      const int from = (request_.rank + step) % request_.ranks;
      send((request_.rank - step + request_.ranks) % request_.ranks, 0, own_share, own);
      store(from, 0, share_of(from));
    }
  }

  /// What of this round the tree carries; of a block, where there are blocks.
  void mesh_tree(std::size_t which) {
    const MeshTree& tree = trees_of(request_)[which];
    const TreeView view = view_of(tree, request_.rank);
    Range range = part_of(schedule_.round.count, trees_of(request_).size(), which);
    range.begin += schedule_.round.begin;
    if (request_.collective == Collective::kAllGather) return mesh_gather(tree, view, range);
    if (request_.collective == Collective::kReduceScatter) return mesh_scatter(tree, view, range);
    const int top = request_.collective == Collective::kAllReduce ? tree.top : request_.root;
    const std::vector<Branch>& branches = tree.branches[static_cast<std::size_t>(request_.rank)];
    const int up = view.toward[static_cast<std::size_t>(top)];
    if (request_.collective != Collective::kBroadcast) mesh_reduce(tree, up, range);
    if (request_.collective == Collective::kReduce) return;
    hand_on(branches, up, range,
            request_.collective == Collective::kBroadcast ? BufferRole::kInput : BufferRole::kOutput);
  }

  /// What comes over all branches but `up`, with our own, goes on over that one; into the output where `up` is -1.
  void mesh_reduce(const MeshTree& tree, int up, const Range& range) {
    const std::vector<Branch>& branches = tree.branches[static_cast<std::size_t>(request_.rank)];
    BufferRole own = BufferRole::kInput;
    auto open = branches.size() - (up >= 0 ? 1 : 0);  // children
    for (int index = 0; index < static_cast<int>(branches.size()); ++index) {
      if (index == up) continue;
      const Branch& child = branches[static_cast<std::size_t>(index)];
      const BufferRole to = --open == 0 && up < 0 ? BufferRole::kOutput : BufferRole::kWork;
      reduce(child.rank, child.way, range, tree.branches[static_cast<std::size_t>(child.rank)].size() > 1, own, to);
      own = to;
    }
    if (up < 0) return;
    const Branch& parent = branches[static_cast<std::size_t>(up)];
    send(parent.rank, parent.way, range, own);
  }

  /// Received over branch `from`, or there already (-1); sent over all others.
  void hand_on(const std::vector<Branch>& branches, int from, const Range& range, BufferRole source) {
    if (from >= 0) {
      const Branch& branch = branches[static_cast<std::size_t>(from)];
      store(branch.rank, branch.way, range);
    }
    for (int index = 0; index < static_cast<int>(branches.size()); ++index) {
      const Branch& branch = branches[static_cast<std::size_t>(index)];
      if (index != from) send(branch.rank, branch.way, range, from < 0 ? source : BufferRole::kOutput);
    }
  }

  /// Each rank's block to all others, nearer blocks first. Of two on their way over one cable the one that comes from
  /// fewer cables away goes first, or else the lower rank's, at both of its ends: what a slice waits for has always
  /// come from nearer, or from as near and from a lower rank.
  void mesh_gather(const MeshTree& tree, const TreeView& view, const Range& range) {
    const std::vector<Branch>& branches = tree.branches[static_cast<std::size_t>(request_.rank)];
    for (int distance = 0; distance < request_.ranks; ++distance) {
      for (int source = 0; source < request_.ranks; ++source) {
        if (view.distances[static_cast<std::size_t>(source)] != distance) continue;
        const std::uint64_t block = static_cast<std::uint64_t>(source) * request_.count;
        hand_on(branches, view.toward[static_cast<std::size_t>(source)], {block + range.begin, range.count},
                BufferRole::kInput);
      }
    }
  }

  /// All ranks' parts of each block to its rank, farther blocks first: mesh_gather backwards. Of two on their way over
  /// one cable the one with more cables to go goes first, or else the lower rank's, at both of its ends: what a slice
  /// waits for has always farther to go, or as far and to a lower rank.
  void mesh_scatter(const MeshTree& tree, const TreeView& view, const Range& range) {
    for (int distance = request_.ranks - 1; distance >= 0; --distance) {
      for (int target = 0; target < request_.ranks; ++target) {
        if (view.distances[static_cast<std::size_t>(target)] != distance) continue;
        const std::uint64_t block = static_cast<std::uint64_t>(target) * request_.count;
        mesh_reduce(tree, view.toward[static_cast<std::size_t>(target)], {block + range.begin, range.count});
      }
    }
  }

  static constexpr std::size_t kStepsMax = 31;  // ranks are an int
};

bool works_in_blocks(Algorithm algorithm, const PlanRequest& request) {
  return (algorithm == Algorithm::kMesh || algorithm == Algorithm::kTorus) &&
         request.collective == Collective::kReduceScatter;
}

bool works_in_output(Algorithm algorithm, const PlanRequest& request) {
  // Of a reduce's ranks only the root has an output that may be written to.
  return request.collective != Collective::kReduce && !works_in_blocks(algorithm, request) &&
         request.partial_bytes == request.element_bytes;
}

/// From `begin` on.
void list_round(Schedule& schedule, std::uint64_t begin) {
  const PlanRequest& request = schedule.request;
  const std::uint64_t end = schedule.part.begin + schedule.part.count;
  const std::uint64_t most = round_count_most(schedule.algorithm, request);
  schedule.round = {begin, std::min(most, end - begin)};
  const bool scatters = request.collective == Collective::kReduceScatter && !schedule.works_in_blocks;
  schedule.work_begin = begin + (scatters ? static_cast<std::uint64_t>(request.rank) * request.count : 0);
  Lister(schedule).list();
}

}  // namespace

TreeNode paired_tree(int tree, int rank, int ranks) {
  // The second tree is the first one mirrored where that makes each leaf a branch, and shifted by one rank elsewhere.
  const bool mirrors = ranks % 2 == 0;
  const auto there = [&](int of) {
    return of < 0 || tree == 0 ? of : mirrors ? ranks - 1 - of : (of + ranks - 1) % ranks;
  };
  const auto back = [&](int of) { return of < 0 || tree == 0 ? of : mirrors ? ranks - 1 - of : (of + 1) % ranks; };
  const int at = there(rank);
  int bit = 1;  // the lowest that is set
  while (bit < ranks && (at & bit) == 0) bit *= 2;
  if (at == 0) return {.first = back(ranks > 1 ? bit / 2 : -1)};
  TreeNode node;
  node.parent = (at ^ bit) | (bit * 2);
  if (node.parent >= ranks) node.parent = at ^ bit;
  node.parent = back(node.parent);
  if (bit == 1) return node;
  node.first = back(at - bit / 2);
  // A branch to the right that the ranks do not fill begins lower.
  for (int right = bit / 2; right > 0 && node.second < 0; right /= 2) {
    if (at + right < ranks) node.second = back(at + right);
  }
  return node;
}

TreeNode rooted_tree(int root, int rank, int ranks) {
  const int at = (rank - root + ranks) % ranks;
  const auto child = [&](int of) { return of < ranks ? (of + root) % ranks : -1; };
  return {
      .parent = at == 0 ? -1 : ((at - 1) / 2 + root) % ranks, .first = child(2 * at + 1), .second = child(2 * at + 2)};
}

bool has_schedule(Algorithm algorithm, Collective collective) {
  switch (algorithm) {
    case Algorithm::kTree:
      return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
             collective == Collective::kReduce;
    case Algorithm::kDirect:
    case Algorithm::kTorus:
      return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
             collective == Collective::kReduceScatter;
    case Algorithm::kHalvingDoubling:
      return collective == Collective::kAllReduce;
    case Algorithm::kMesh:
      return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
             collective == Collective::kReduceScatter || collective == Collective::kBroadcast ||
             collective == Collective::kReduce;
    case Algorithm::kRing:
      break;
  }
  return false;
}

std::uint64_t round_count_most(Algorithm algorithm, const PlanRequest& request) {
  // One that is not held up by this rank's memory must be cut like the others' all the same.
  const bool moves = request.collective == Collective::kBroadcast || request.collective == Collective::kAllGather;
  if (moves || works_in_output(algorithm, request)) return std::max<std::uint64_t>(request.count, 1);
  const std::uint64_t blocks = works_in_blocks(algorithm, request) ? static_cast<std::uint64_t>(request.ranks) : 1;
  return std::max<std::uint64_t>(kWorkBytes / request.partial_bytes / blocks, 1);
}

std::uint64_t scheduled_slice_count(Algorithm algorithm, const PlanRequest& request) {
  const bool reduces = request.collective != Collective::kBroadcast && request.collective != Collective::kAllGather;
  const std::uint64_t wire_bytes = reduces ? request.partial_bytes : request.element_bytes;
  const std::uint64_t part =
      part_of(request.count, static_cast<std::uint64_t>(request.channels), static_cast<std::uint64_t>(request.channel))
          .count;
  if (algorithm == Algorithm::kMesh && request.ranks > 1) {
    // Each round begins with empty cables.
    const std::uint64_t at_once = is_rooted(request) ? std::min(part, round_count_most(algorithm, request)) : part;
    const std::uint64_t share_bytes = part_of(at_once, trees_of(request).size(), 0).count * wire_bytes;
    const std::uint64_t slices = is_rooted(request) ? kRootedSlices : kMeshSlices;
    const std::uint64_t wanted = share_bytes / slices / kMeshSliceFloorBytes * kMeshSliceFloorBytes;
    const std::uint64_t bytes = std::min(std::max(wanted, kMeshSliceFloorBytes), request.slice_bytes_max);
    return std::max<std::uint64_t>(bytes / wire_bytes, 1);
  }
  const bool all = request.collective == Collective::kAllReduce;
  if (algorithm == Algorithm::kTorus) {
    const std::uint64_t largest = torus_chunk(request) / static_cast<std::uint64_t>(torus_pieces(request));
    return slice_count_of(largest, wire_bytes, request);
  }
  const std::uint64_t pieces = !all                              ? 1
                               : algorithm == Algorithm::kDirect ? static_cast<std::uint64_t>(request.ranks)
                                                                 : 2;
  return slice_count_of(part_of(part, pieces, 0).count, wire_bytes, request);
}

Schedule make_schedule(Algorithm algorithm, const PlanRequest& request) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  schedule.request = request;
  schedule.part =
      part_of(request.count, static_cast<std::uint64_t>(request.channels), static_cast<std::uint64_t>(request.channel));
  schedule.works_in_blocks = works_in_blocks(algorithm, request);
  schedule.works_in_output = works_in_output(algorithm, request);
  schedule.slice_count = scheduled_slice_count(algorithm, request);
  if (request.ranks == 1 || (request.collective == Collective::kBroadcast && request.rank == request.root)) {
    schedule.copy = {schedule.part.begin, schedule.part.begin, schedule.part.count};
  }
  const std::uint64_t own_block = static_cast<std::uint64_t>(request.rank) * request.count;
  if (request.collective == Collective::kAllGather) {
    schedule.input_begin = own_block;
    schedule.copy = {schedule.part.begin, own_block + schedule.part.begin, schedule.part.count};
  }
  if (request.collective == Collective::kReduceScatter) schedule.output_begin = own_block;
  list_round(schedule, schedule.part.begin);
  return schedule;
}

std::uint64_t work_count(const Schedule& schedule) {
  return schedule.round.count * (schedule.works_in_blocks ? static_cast<std::uint64_t>(schedule.request.ranks) : 1);
}

std::uint64_t work_index(const Schedule& schedule, std::uint64_t index) {
  if (!schedule.works_in_blocks) return index - schedule.work_begin;
  const std::uint64_t block = index / schedule.request.count;
  return block * schedule.round.count + index % schedule.request.count - schedule.round.begin;
}

bool next_round(Schedule& schedule) {
  const std::uint64_t begin = schedule.round.begin + schedule.round.count;
  if (begin == schedule.part.begin + schedule.part.count) return false;
  list_round(schedule, begin);
  return true;
}

}  // namespace meshbed::coll
