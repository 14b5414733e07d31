#include "testbed/scenario/cluster_lines.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {

std::string topology_line(const Scenario& scenario) {
  std::size_t nics = 0;
  for (const models::Node& node : scenario.cluster.nodes) nics += node.nics.size();
  const std::size_t routers = scenario.cluster.routers.size();
  std::size_t boxes = 0, trunks = 0;
  for (const models::Switch& network : scenario.cluster.switches) {
    boxes += network.boxes.size();
    trunks += network.trunks.size();
  }
  return fmt::format(
      "{}, {}, {}, {}{}{}; {}", counted(scenario.cluster.nodes.size(), "node"), counted(nics, "NIC"),
      counted(scenario.cluster.cables.size(), "cable"), counted(scenario.cluster.switches.size(), "switch"),
      boxes > 0 ? fmt::format(" of {} and {}", boxes == 1 ? std::string("1 box") : fmt::format("{} boxes", boxes),
                              counted(trunks, "trunk"))
                : "",
      routers > 0 ? ", " + counted(routers, "router") : "",
      counted(static_cast<std::uint64_t>(ranks_of(scenario)), "rank"));
}

std::string assumed_line(const Scenario& scenario) {
  std::string line;
  for (const std::string& each : scenario.assumed) {
    const std::size_t end = each.find("; ");
    line += (line.empty() ? "assumed: " : "; ") + each.substr(0, end);
  }
  return line;
}

std::string shared_subnet(const models::Cluster& cluster, const sim::PairKey& key) {
  const auto nic = [&](const models::PortRef& port) -> const models::Nic& { return cluster.nic_of(port); };
  if (key.source.node < 0 || key.destination.node < 0) return "-";
  for (const models::IpPrefix& left : nic(key.source).addresses) {
    for (const models::IpPrefix& right : nic(key.destination).addresses) {
      if (models::same_subnet(left, right)) return subnet_text(left);
    }
  }
  if (nic(key.source).router >= 0 && nic(key.source).router == nic(key.destination).router) return "routed";
  return nic(key.source).addresses.empty() && nic(key.destination).addresses.empty() ? "link-local" : "-";
}

}  // namespace meshbed::testbed
