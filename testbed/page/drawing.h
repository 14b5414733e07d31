#pragma once
// The cluster of a run as a picture: the connections of nodes, and the traffic of each direction of each link.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "testbed/page/source.h"

namespace meshbed::testbed::page {

/// As the run's summary lists it; without nodes where the cluster is too large for a list.
models::Cluster cluster_of(const RunSource& source);

/// A direction of a link.
struct LinkUse {
  std::string name;  // "node0/rocep1s0f0>node1/rocep1s0f1"
  std::uint64_t rate_bps = 0, wire_bytes = 0;
  double share = 0;  // of what it could carry during the whole run
  double busy = 0;   // share of the run's time in which it carried something
};
std::vector<LinkUse> links_of(const RunSource& source);

/// The picture as SVG, and the tables of links and of relayed pairs.
std::string topology_html(const RunSource& source);

}  // namespace meshbed::testbed::page
