#pragma once
// Trunks: a switched network of several boxes that cables between them join, as leaf-spine fabrics, fat trees and
// dragonflies are: one subnet, one Switch of the cluster.
//
// A frame goes over a shortest way, in boxes. Where a box has several trunks that lead on, a hash of the flow selects
// one (equal-cost multipath), so that all frames of a flow keep one way and their order. Real hashes differ by maker;
// this one is fixed: the same flow takes the same way in every run. A flow is a source port, a destination port and, of
// RoCE v2, the UDP source port of the queue pair.
// Pure; one thread.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/result.h"

namespace meshbed::models {

/// A trunk in one of its directions.
struct TrunkHop {
  int trunk = -1;
  bool forward = true;  // from its end a to its end b
};

class TrunkRoutes {
 public:
  /// `network` must outlive the routes.
  explicit TrunkRoutes(const Switch& network);

  /// Trunks from one box to another, in order; none within one box. O(boxes + trunks) for the first way to a box, then
  /// O(trunks of the boxes on the way).
  std::vector<TrunkHop> way(int from, int to, std::uint64_t flow);
  /// Whether trunks lead from each box to every other one.
  bool all_joined();

 private:
  struct Exit {
    int trunk = -1, to = -1;
  };
  const std::vector<int>& distances_to(int box);

  const Switch& network_;
  std::vector<std::vector<Exit>> exits_;     // [box]
  std::vector<std::vector<int>> distances_;  // [destination][box], in trunks; empty: not asked for yet
};

/// Whether one of the cluster's switches consists of several boxes.
bool has_boxes(const Cluster& cluster);

/// How the boxes of a generated network are joined.
enum class FabricKind : std::uint8_t { kLeafSpine, kFatTree, kDragonfly };

struct FabricOptions {
  FabricKind kind = FabricKind::kLeafSpine;
  int leaves = 0, spines = 0;   // leaf-spine
  double oversubscription = 0;  // rate of a leaf's nodes over that of its uplinks; 0: `spines` says. Of a fat tree 1
                                // or more, of its lowest boxes
  int arity = 0;                // fat tree: ports of a box, even
  int groups = 0, boxes = 0;    // dragonfly: groups, boxes in each
  int uplinks = 1;              // leaf-spine: trunks from each leaf to each spine; dragonfly: between two groups
  std::uint64_t uplink_rate_bps = 0;
};

/// Gives a switch with `ports` the boxes and trunks of a fabric, its ports spread over the lowest boxes in their order.
/// Names are leaf0, spine0, edge0, aggregation0, core0, group0-0, behind `prefix`. The error names the option that does
/// not fit.
Result<void> join_boxes(Switch& network, const FabricOptions& options, const std::string& prefix);

/// Nodes of a fat tree of that arity: k^3/4, times the oversubscription.
std::int64_t fat_tree_nodes(const FabricOptions& options);

}  // namespace meshbed::models
