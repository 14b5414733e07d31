#pragma once
// The settings with which stock NCCL works on a cabling, as text. Each sentence cites its lines of NCCL's source,
// v2.30.7-1. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/routing_rules.h"
#include "models/topology.h"

namespace meshbed::testbed {

struct StockNcclQuestion {
  const models::Cluster& cluster;
  const models::Topology& topology;
  std::vector<int> nodes_by_rank;   // NCCL's numbering: each node that runs ranks once, in the order of its first rank
  int nodes = 0;                    // of the job: the first ones
  bool crosses_rails = false;       // as models::settings_that_work()
  std::uint64_t near_channels = 0;  // between nodes that a cable, switch or router joins
  std::uint64_t far_channels = 0;   // between the others
};

/// What is known before any sentence is made of it.
struct StockNcclFacts {
  std::optional<models::WorkingSettings> working;  // nullopt: none reach every neighbour, or there are no neighbours
  std::string ring_order;                          // of nodes, where some share no cable: "node0 - node1"; empty: none
  bool is_ring_known = true;                       // false: there are too many nodes to look for one
  bool needs_other_joins = false;                  // trees or PAT join nodes that share no cable
  std::vector<std::string> against;                // settings that stand against connecting trees late
  std::vector<std::string> other_algorithm;        // settings of NCCL_ALGO that are not Ring
};
StockNcclFacts stock_nccl_facts(const StockNcclQuestion& question);

/// Ends in a line feed.
std::string stock_nccl_report(const StockNcclQuestion& question);

/// "NCCL_IB_HCA=^x leaves out x of node0, node1": NICs that the environment leaves out, folded; empty: none.
std::vector<std::string> left_out_lines(const models::Cluster& cluster, int nodes);
/// What the environment of the job's nodes leaves out and sets that rules depend on; a line each, empty: nothing.
/// `nodes`: the first ones.
std::vector<std::string> environment_lines(const models::Cluster& cluster, int nodes);

}  // namespace meshbed::testbed
