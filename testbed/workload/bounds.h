#pragma once
// Bounds: the closed forms of models/algorithm.h for the ports that a run actually used.

#include <map>
#include <vector>

#include "models/algorithm.h"
#include "models/topology.h"
#include "sim/trace/recorder.h"
#include "testbed/workload/collective.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

struct Bounds {
  // On the hops that the engine uses; 0: nothing can be said, as where the ring was not asked for.
  models::RingBound ring;
  Picoseconds any_algorithm_ps = 0;  // for every algorithm on these NICs
};

class BoundTable {
 public:
  /// Reads the connected pairs of ranks from the recorder's pairs: hop r is all ports that carried messages from rank r
  /// to its neighbour (r + 1; sendrecv: r + shift).
  BoundTable(const Scenario& scenario, const Simulation& simulation,
             const std::map<sim::PairKey, sim::PairUsage>& pairs);

  /// `bytes`: CollectiveShape::bytes.
  Bounds of(const CollectiveCase& wanted, std::uint64_t bytes) const;

 private:
  /// A connection whose cable failed may go on through other nodes, which may be faster than the cable was: each hop is
  /// then no slower than the best chain.
  void allow_for_chains(const Scenario& scenario, const Simulation& simulation);

  /// Empty where a hop between nodes carried nothing, other than one that has nothing to carry.
  std::vector<models::RingHop> hops(const CollectiveCase& wanted) const;

  /// Where some have no cable to where they send: what the cables on the way cost at least. Else 0.
  Picoseconds relay_bound_ps(const CollectiveCase& wanted, std::uint64_t bytes) const;

  int node_at(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }

  models::Topology topology_;                            // with all links up
  std::map<std::pair<int, int>, models::RingHop> hops_;  // by source and destination rank
  std::vector<models::NodePort> nodes_;
  int ranks_ = 0;
  std::vector<int> node_of_;  // [rank]
  bool is_ring_ = false;      // the ring was asked for
};

}  // namespace meshbed::testbed
