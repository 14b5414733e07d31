#include "testbed/scenario/findings/finder.h"

#include <algorithm>

#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/findings/reach.h"

namespace meshbed::testbed {
namespace {

/// With the links and addresses that faults give later in the run.
models::Cluster with_later_links(models::Cluster cluster, const Scenario& scenario) {
  for (const Fault& fault : scenario.faults) {
    const bool readdresses = fault.kind == FaultKind::kAddressChange;
    if (!readdresses && !gives_link(fault.kind)) continue;
    for (const models::PortRef port : ports_of(scenario.cluster, fault)) {
      models::Nic& nic = cluster.nic_of(port);
      if (readdresses) {
        nic.addresses.push_back(fault.address);
      } else {
        nic.link_up = true;
      }
    }
  }
  return cluster;
}

}  // namespace

Finder::Finder(const Scenario& scenario)
    : scenario_(scenario),
      cluster_(scenario.cluster),
      topology_(models::analyse(is_ours() ? as_plugin_takes_it(cluster_) : cluster_)),
      later_(models::analyse(with_later_links(is_ours() ? as_plugin_takes_it(cluster_) : cluster_, scenario))) {
  for (const models::Segment& segment : topology_.segments) {
    joined_.insert(segment.ports.begin(), segment.ports.end());
  }
}

std::vector<Finding> Finder::run() && {
  crossed_cables();
  for (const models::Cable& cable : cluster_.cables) cable_ends(cable);
  cable_vlans();
  switches();
  ports();
  falls_apart();
  no_path();
  idle_gpus();
  assumed();
  net_plugin();
  recording();
  variables();
  promises();
  rings();
  return std::move(findings_);
}

void Finder::add(FindingCode code, Severity severity, std::string place, std::string cause, std::string fix) {
  findings_.push_back({code, severity, std::move(place), std::move(cause), std::move(fix)});
}

void Finder::add_failure(FindingCode code, std::string place, std::string cause, std::string fix, bool is_promised) {
  if (is_promised) return add(code, Severity::kNote, std::move(place), std::move(cause) + ", as [expect] promises");
  add(code, Severity::kError, std::move(place), std::move(cause), std::move(fix));
}

bool has_variable(const models::Node& of, const std::string& name, const std::string& value) {
  return std::any_of(of.environment.begin(), of.environment.end(),
                     [&](const auto& variable) { return variable.first == name && variable.second == value; });
}

}  // namespace meshbed::testbed
