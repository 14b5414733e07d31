// Checks of switches: the MTUs, VLANs and subnets of their ports.

#include <algorithm>
#include <cstddef>
#include <map>

#include "models/lan/bond.h"
#include "models/lan/frame.h"
#include "plugin/base/counted.h"
#include "testbed/scenario/findings/finder.h"
#include "testbed/scenario/findings/media.h"

namespace meshbed::testbed {
namespace {

const models::Nic& nic_at(const models::Cluster& cluster, models::PortRef port) { return cluster.nic_of(port); }

std::string switch_place(const models::Switch& box) { return "switch '" + box.name + "'"; }

/// [subnet] the first port of each VLAN that it is in.
using VlansOfSubnet = std::map<std::string, std::map<std::uint16_t, models::PortRef>>;

VlansOfSubnet vlans_of_subnets(const models::Cluster& cluster, const models::Switch& box) {
  VlansOfSubnet vlans;
  for (const models::PortRef port : box.ports) {
    const models::Nic& nic = nic_at(cluster, port);
    for (const models::IpPrefix& prefix : nic.addresses) {
      vlans[subnet_text(prefix)].emplace(nic.vlan, port);
    }
  }
  return vlans;
}

}  // namespace

std::string vlan_text(std::uint16_t vlan) { return vlan == 0 ? "no VLAN" : fmt::format("VLAN {}", vlan); }

std::string function_text(const models::Cluster& cluster, models::PortRef port) {
  return cluster.at(port.node).name + "/" + models::function_name(nic_at(cluster, port));
}

std::string functions_text(const models::Cluster& cluster, const std::vector<models::PortRef>& ports) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t index = 0; index < std::min(ports.size(), kNamed); ++index) {
    text += (text.empty() ? "" : ", ") + function_text(cluster, ports[index]);
  }
  return ports.size() <= kNamed ? text : text + " and " + counted(ports.size() - kNamed, "other NIC");
}

bool is_link_local_only(const models::Cluster& cluster, const models::Cable& cable) {
  return nic_at(cluster, models::device_of(cluster, cable.a)).addresses.empty() &&
         nic_at(cluster, models::device_of(cluster, cable.b)).addresses.empty();
}

void Finder::switches() {
  switch_vlans();
  switch_mtus();
  for (const models::Switch& box : cluster_.switches) {
    std::set<std::uint32_t> mtus;
    for (const models::PortRef port : box.ports) mtus.insert(nic(port).mtu_bytes);
    if (mtus.size() > 1) {
      add(FindingCode::kSwitchMtus, Severity::kWarning, switch_place(box),
          fmt::format("the NICs on it have {} different MTUs, from {} to {}: two of them exchange packets of the lower "
                      "one",
                      mtus.size(), *mtus.begin(), *mtus.rbegin()),
          "give all NICs the same mtu");
    }
    for (const models::PortRef port : box.ports) {
      if (nic(port).addresses.empty() || !nic(port).link_up || is_joined(port)) continue;
      add(FindingCode::kAloneInSubnet, Severity::kWarning, name(port),
          fmt::format("it is alone in its subnet {} on {}", subnet_text(nic(port).addresses.front()),
                      switch_place(box)),
          "give it an address of the other ports' subnet");
    }
  }
}

void Finder::switch_vlans() {
  for (const models::Switch& box : cluster_.switches) {
    for (const auto& [subnet, vlans] : vlans_of_subnets(cluster_, box)) {
      if (vlans.size() < 2) continue;
      std::string text;
      for (const auto& [vlan, port] : vlans) {
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", vlan_text(vlan), function_text(cluster_, port));
      }
      add(FindingCode::kSwitchVlan, Severity::kWarning, switch_place(box),
          fmt::format("subnet {} is in {}; ports of different VLANs do not reach each other", subnet, text),
          "give them the same vlan, or each VLAN a subnet of its own");
    }
  }
}

void Finder::switch_mtus() {
  for (const models::SmallSwitchMtu& small : models::small_switch_mtus(cluster_, topology_)) {
    const std::string ports = functions_text(cluster_, small.ports);
    const char* const key = small.of_switch ? "mtu" : "switch_mtu";
    const char* const larger = small.of_switch ? "the switch's mtu" : "switch_mtu";
    const std::string place = switch_place(cluster_.switches[static_cast<std::size_t>(small.switch_index)]);
    if (!small.rdma_is_lost) {
      add(FindingCode::kSwitchMtu, Severity::kWarning, place,
          fmt::format("{} = {} lets RDMA packets of {} bytes pass, and drops full TCP segments of {}", key,
                      small.mtu_bytes, small.path_mtu_bytes, ports),
          fmt::format("set {} to {} or more, or mtu of these NICs to {}", larger, small.needed_bytes, small.mtu_bytes));
      continue;
    }
    add(FindingCode::kSwitchMtu, Severity::kWarning, place,
        fmt::format("{} = {} drops full RDMA packets of {} (active_mtu {}): small messages pass, longer ones end in "
                    "\"transport retry counter exceeded\"",
                    key, small.mtu_bytes, ports, small.path_mtu_bytes),
        fmt::format("set {} to {} or more ({} for RDMA alone), or mtu of these NICs to {}", larger, small.needed_bytes,
                    small.path_mtu_bytes + models::kRdmaHeadersMostBytes, small.mtu_bytes));
  }
}

}  // namespace meshbed::testbed
