#include "cli/workload/medium_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "models/lan/bond.h"
#include "models/lan/frame.h"
#include "plugin/base/counted.h"

namespace meshbed::cli {
namespace {

const models::Nic& medium_nic(const models::Cluster& cluster, models::PortRef port) {
  return cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)];
}

std::string medium_port_text(const models::Cluster& cluster, models::PortRef port) {
  return cluster.nodes[static_cast<std::size_t>(port.node)].name + "/" +
         models::function_name(medium_nic(cluster, port));
}

/// "node0/rocep1s0f0, node1/rocep1s0f0 and 14 other NICs"
std::string medium_ports_text(const models::Cluster& cluster, const std::vector<models::PortRef>& ports) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t index = 0; index < std::min(ports.size(), kNamed); ++index) {
    text += (text.empty() ? "" : ", ") + medium_port_text(cluster, ports[index]);
  }
  return ports.size() <= kNamed ? text : text + " and " + counted(ports.size() - kNamed, "other NIC");
}

std::string small_mtu_text(const models::Cluster& cluster, const models::SmallSwitchMtu& small) {
  const std::string ports = medium_ports_text(cluster, small.ports);
  const std::string& box = cluster.switches[static_cast<std::size_t>(small.switch_index)].name;
  const char* const key = small.of_switch ? "mtu" : "switch_mtu";
  const char* const fix = small.of_switch ? "the switch's mtu" : "switch_mtu";
  if (!small.rdma_is_lost) {
    return fmt::format(
        "switch '{}': {} = {} lets RDMA packets of {} bytes pass, and drops full TCP segments of {}; set {} to {} or "
        "more, or mtu of these NICs to {}",
        box, key, small.mtu_bytes, small.path_mtu_bytes, ports, fix, small.needed_bytes, small.mtu_bytes);
  }
  return fmt::format(
      "switch '{}': {} = {} drops full RDMA packets of {} (active_mtu {}): small messages pass, longer ones end in "
      "\"transport retry counter exceeded\"; set {} to {} or more ({} for RDMA alone), or mtu of these NICs to {}",
      box, key, small.mtu_bytes, ports, small.path_mtu_bytes, fix, small.needed_bytes,
      small.path_mtu_bytes + models::kRdmaHeadersMostBytes, small.mtu_bytes);
}

/// [subnet] the first port of each VLAN that it is in.
using VlansOfSubnet = std::map<std::string, std::map<std::uint16_t, models::PortRef>>;

VlansOfSubnet vlans_of_subnets(const models::Cluster& cluster, const models::Switch& box) {
  VlansOfSubnet vlans;
  for (const models::PortRef port : box.ports) {
    const models::Nic& nic = medium_nic(cluster, port);
    for (const models::IpPrefix& prefix : nic.addresses) {
      vlans[models::subnet_string(prefix)].emplace(nic.vlan, port);
    }
  }
  return vlans;
}

}  // namespace

std::string vlan_text(std::uint16_t vlan) { return vlan == 0 ? "no VLAN" : fmt::format("VLAN {}", vlan); }

std::vector<std::string> cable_vlan_findings(const models::Cluster& cluster, const models::Topology& topology) {
  std::vector<std::string> found;
  for (const models::CrossedCable& crossed : topology.crossed) {
    if (!crossed.is_other_vlan()) continue;
    const models::Cable& cable = cluster.cables[static_cast<std::size_t>(crossed.cable)];
    found.push_back(
        fmt::format("cable '{}': {} is in {}, {} in {}; nothing can pass over it: give both ends the same vlan",
                    cable.name, medium_port_text(cluster, cable.a), vlan_text(crossed.a_vlan),
                    medium_port_text(cluster, cable.b), vlan_text(crossed.b_vlan)));
  }
  return found;
}

std::vector<std::string> switch_vlan_findings(const models::Cluster& cluster) {
  std::vector<std::string> found;
  for (const models::Switch& box : cluster.switches) {
    for (const auto& [subnet, vlans] : vlans_of_subnets(cluster, box)) {
      if (vlans.size() < 2) continue;
      std::string text;
      for (const auto& [vlan, port] : vlans) {
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", vlan_text(vlan), medium_port_text(cluster, port));
      }
      found.push_back(
          fmt::format("switch '{}': subnet {} is in {}; ports of different VLANs do not reach each other: give them "
                      "the same vlan, or each VLAN a subnet of its own",
                      box.name, subnet, text));
    }
  }
  return found;
}

std::vector<std::string> switch_mtu_findings(const models::Cluster& cluster, const models::Topology& topology) {
  std::vector<std::string> found;
  for (const models::SmallSwitchMtu& small : models::small_switch_mtus(cluster, topology)) {
    found.push_back(small_mtu_text(cluster, small));
  }
  return found;
}

std::vector<std::string> medium_findings(const models::Cluster& cluster, const models::Topology& topology) {
  std::vector<std::string> found = cable_vlan_findings(cluster, topology);
  for (std::string& finding : switch_vlan_findings(cluster)) found.push_back(std::move(finding));
  for (std::string& finding : switch_mtu_findings(cluster, topology)) found.push_back(std::move(finding));
  return found;
}

}  // namespace meshbed::cli
