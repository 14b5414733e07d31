#pragma once
// Exchange fabric: what joins the nodes that exchange messages, with the rates that a class's library reaches. Pure.
//
// Nomenclature: hop - what joins two nodes directly, in one direction; shared - what messages of several pairs of nodes
// cross between their adapters: a trunk between two boxes of a switched network, in one direction, or a router's port.
// Flows over several trunks that lead on equally are split evenly: what a switch's hash of flows loses is not modelled.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "models/time/machine.h"
#include "plugin/base/result.h"

namespace meshbed::models {

/// Rates in GB/s of payload, one direction: as the library reaches them, and of the line.
struct ExchangeRate {
  double reached_GBps = 0, line_GBps = 0;
};

struct ExchangeFabric {
  struct Hop {
    int to = 0;
    ExchangeRate rate;
  };
  struct Shared {
    std::string what;  // "trunk from leaf0 to spine0"
    ExchangeRate rate;
  };
  struct Share {
    int shared = 0;   // index in `shared`
    double part = 0;  // of a pair's bytes
  };
  std::string name;                                         // "switch", "ring", "mesh", or "scenario"
  bool direct = true;                                       // only adapters limit each pair of nodes
  std::vector<ExchangeRate> adapters;                       // [node] of all of a node's
  std::vector<std::vector<Hop>> hops;                       // [node] neighbours, ascending; unused where `direct`
  std::vector<Shared> shared;                               // likewise
  std::map<std::pair<int, int>, std::vector<Share>> parts;  // of two neighbours, in this direction; absent: none
};

/// Of a class: the adapters of each node carry the class's rate, over all its cables together.
ExchangeFabric exchange_fabric(const Machine& machine, Cabling cabling, int nodes);
/// Of a scenario's cluster: its cables, switch ports, trunks, routers and PCIe links, of which the class reaches its
/// share. Refused where it has fewer nodes. Cost: O(nodes^2) and a search over the boxes for each of them.
Result<ExchangeFabric> exchange_fabric(const Machine& machine, const Cluster& cluster, int nodes);

}  // namespace meshbed::models
