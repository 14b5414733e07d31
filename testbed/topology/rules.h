#pragma once
// meshbed topo rules: which nodes reach each other, by whose rules. The ancestor's and NCCL's are models
// (models/routing_rules.h); Meshbed's are the plugin's own functions, the same ones that connect() calls.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/routing_rules.h"
#include "testbed/result/document.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/stock_nccl.h"

namespace meshbed::testbed {

/// What the plugin does for a channel on `device`.
struct MeshAim {
  models::Aim aim = models::Aim::kRefused;
  int nic = -1;    // of the sender
  int cables = 0;  // on the way; above 1: through relays
  bool routed = false;
};

/// The plugin's rules on one cluster, with the settings that its nodes' environments make.
class MeshRules {
 public:
  /// `job_nodes`: so many run ranks, from the first on; only they relay. 0: all.
  MeshRules(const models::Cluster& cluster, const models::Topology& topology, int job_nodes = 0);
  ~MeshRules();
  /// `peer_device`: the listener's; -1: `device`.
  /// `names_nic`: false leaves MeshAim::nic at -1 where relays are needed, which costs a search less.
  MeshAim aim(int from, int to, int device, int peer_device = -1, bool names_nic = true) const;
  /// NICs that the plugin opens on the node.
  std::size_t devices(int node) const;
  /// No node of the job has relays turned off.
  bool relays() const;
  /// The plugin opens the node's NIC.
  bool uses(int node, int nic) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For each pair of nodes that run ranks and each device (where ranks of one node have devices of their own: each pair
/// of devices of which one rank has the one and one the other), in the order of the scenario: what every rule does, in
/// text alone; then how often each outcome came, which NICs NCCL would open and Mesh leaves out, the environment's
/// settings, what the tuner makes of the cabling, the settings under which stock NCCL works on it, and the findings.
document::Document rules_document(const Scenario& scenario);
/// Its table "rules" alone: for each rule, how often each outcome came.
document::Table rules_table(const Scenario& scenario);
/// The settings under which stock NCCL works on the scenario's cabling (stock_nccl.h).
StockNcclFacts stock_nccl_facts(const Scenario& scenario);

/// How often each outcome came, over all cablings of a number of nodes with two NICs each.
struct RuleTally {
  std::string rule;
  std::uint64_t reached = 0, refused = 0, lost = 0;
  std::uint64_t relayed = 0;  // of those that were reached
  std::uint64_t cut_off = 0;  // refused or lost, although cables lead there
};
struct CablingTally {
  int nodes = 0;
  std::uint64_t cablings = 0;
  std::uint64_t channels = 0;   // ordered pairs of nodes that have a NIC, times two devices
  std::uint64_t connected = 0;  // of those, with a way of cables
  std::vector<RuleTally> rules;
};
CablingTally tally_cablings(int nodes);
/// The tallies of `least` to `most` nodes as tables.
std::string cablings_report(int least, int most);

}  // namespace meshbed::testbed
