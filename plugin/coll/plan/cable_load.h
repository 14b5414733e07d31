#pragma once
// Cable load: the load of the cables between the ranks by an operation. Ranks without a common cable use the chain of
// fewest cables. Pure.

#include <limits>

#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/plan.h"

namespace meshbed::coll {

inline constexpr double kNsPerByteAtOneMbps = 8000;

/// Farther ranks get no connection: the net plugin's NCCL_MESH_MAX_RELAY_HOPS, as it comes
/// (plugin/net/process/config.h).
inline constexpr int kHopsMost = 8;

struct CableLoad {
  double ns_per_byte = 0;  // of request.count elements: through the busiest cable, or the busiest rank's all, one way
  double hops = 1;         // cables that a message crosses: the farthest pair's; on average, where they take turns
  int most_hops = 1;       // the farthest pair's
  // Of an all_reduce's bytes through the busiest cable what is on its way before anything comes back: the least of all
  // cables that are as busy.
  double first_part = 0.5;
  bool by_rank = false;  // it is a rank's cables together that are the busiest, not one of them
};

/// The load by the request's collective on its mesh, which joins all ranks, two or more. Collectives that always go
/// round the ring count as broadcasts do. `mbps_most`: the part of a cable's rate that a message can use, if it is too
/// short to be striped over all parts of the cable.
CableLoad cable_load(Algorithm algorithm, const PlanRequest& request,
                     double mbps_most = std::numeric_limits<double>::infinity());

}  // namespace meshbed::coll
