#pragma once
// Finder: the checks behind findings_of(), one function a subject. Private to testbed/scenario/findings.

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/topology.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

class Finder {
 public:
  explicit Finder(const Scenario& scenario);
  /// In the order of the checks.
  std::vector<Finding> run() &&;

 private:
  const models::Node& node(int index) const { return cluster_.at(index); }
  const models::Nic& nic(models::PortRef port) const {
    return node(port.node).nics[static_cast<std::size_t>(port.nic)];
  }
  /// "node0/rocep1s0f0"
  std::string name(models::PortRef port) const { return node(port.node).name + "/" + nic(port).device; }
  /// The net plugin is Meshbed's own.
  bool is_ours() const { return scenario_.workload.net_plugin.empty() || scenario_.workload.net_plugin == "mesh"; }
  bool is_joined(models::PortRef port) const { return joined_.count(port) != 0; }

  void add(FindingCode code, Severity severity, std::string place, std::string cause, std::string fix = "");
  /// An error, unless the scenario promises that the run fails: then a note.
  void add_failure(FindingCode code, std::string place, std::string cause, std::string fix, bool is_promised);

  void crossed_cables();  // cables.cpp
  void cable_ends(const models::Cable& cable);
  void cable_vlans();
  std::string plug_of(const models::Cable& cable) const;
  void switches();  // switches.cpp
  void switch_vlans();
  void switch_mtus();
  void ports();  // ports.cpp
  void port(models::PortRef port, bool is_cabled);
  void address_of(models::PortRef port);
  std::string why_link_local_is_idle(models::PortRef port) const;
  void gids_of(models::PortRef port);
  void pinned_gid(models::PortRef port);
  void narrow_pcie(models::PortRef port);
  void hidden_route(models::PortRef port);
  void falls_apart();  // paths.cpp
  void no_path();
  bool stands_apart(std::size_t node) const;
  bool in_one_piece() const;
  std::string reason_for_no_path(int from, int to);
  const std::vector<int>& hops_from(int from);
  bool asks_for_tcp(int node) const;
  void variables();   // environment.cpp
  void net_plugin();  // workload.cpp
  void recording();
  void idle_gpus();
  void assumed();
  void promises();
  void rings();

  const Scenario& scenario_;
  const models::Cluster& cluster_;
  const models::Topology topology_;       // of the cluster as the plugin uses it
  const models::Topology later_;          // with the links and addresses that faults give later
  std::set<models::PortRef> joined_;      // ports that reach another one
  std::map<int, std::vector<int>> hops_;  // [from][to] as models::hop_counts() of later_: a collective has n^2 pairs
  std::vector<Finding> findings_;
};

/// The node's environment, or the scenario's, gives the variable this value.
bool has_variable(const models::Node& of, const std::string& name, const std::string& value);

}  // namespace meshbed::testbed
