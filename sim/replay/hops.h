#pragma once
// Hops: which links join two nodes of a cluster, for each channel. Built from a models::Cluster once, O(ports); each
// look-up is O(ports of the two nodes).

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/result.h"
#include "sim/engine/network.h"

namespace meshbed::sim {

struct ReplayHop {
  const Path* path = nullptr;
  std::uint64_t rate_bps = 0;  // of the slowest link
  Picoseconds latency_ps = 0;
};

class ReplayHops {
 public:
  explicit ReplayHops(const models::Cluster& cluster);

  /// Channel c takes link c % k of the k that join the nodes, in the order of the sender's NICs. An error where no
  /// cable and no switch joins them, or the cluster has bonds.
  Result<ReplayHop> hop(int from, int to, int channel);

  /// How many links join the nodes.
  std::size_t count(int from, int to) const { return joined(from, to).size(); }
  /// The same links the other way.
  ReplayHop back(const ReplayHop& hop);

  Network& network() { return network_; }

 private:
  struct Port {
    int cable = -1;
    int switch_index = -1;
  };
  ReplayHop hop_over(const Path& path) const;
  std::vector<std::pair<models::PortRef, models::PortRef>> joined(int from, int to) const;

  const models::Cluster& cluster_;
  Network network_;
  std::vector<std::vector<Port>> ports_;  // [node][NIC]
};

}  // namespace meshbed::sim
