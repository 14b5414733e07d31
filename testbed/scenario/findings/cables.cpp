// Checks of cables: the subnets, VLANs, MTUs and rates of their two ends.

#include <algorithm>
#include <utility>

#include "models/lan/bond.h"
#include "testbed/base/units.h"
#include "testbed/scenario/findings/finder.h"
#include "testbed/scenario/findings/media.h"

namespace meshbed::testbed {
namespace {

std::string cable_place(const models::Cable& cable) { return "cable '" + cable.name + "'"; }

}  // namespace

void Finder::crossed_cables() {
  for (const models::CrossedCable& crossed : topology_.crossed) {
    // cable_ends() and cable_vlans() report these, link_local_only() cables without any address.
    if (crossed.is_wrong_prefix() || crossed.is_other_vlan()) continue;
    const models::Cable& cable = cluster_.cables[static_cast<std::size_t>(crossed.cable)];
    if (is_link_local_only(cluster_, cable)) continue;
    const std::string plug = plug_of(cable);
    add(FindingCode::kCrossedCable, Severity::kWarning, cable_place(cable),
        fmt::format("its ends are in different subnets ({}: {}, {}: {}), so that no packet passes over it",
                    name(cable.a), crossed.a_subnets, name(cable.b), crossed.b_subnets),
        plug.empty() ? "give both ends addresses of one subnet, or put the plug into the right port" : plug);
  }
}

/// "NODE/NIC is in SUBNET, too: ..." where another NIC of one end's node has the other end's subnet.
std::string Finder::plug_of(const models::Cable& cable) const {
  for (const auto& [here, there] : {std::pair{cable.a, cable.b}, std::pair{cable.b, cable.a}}) {
    for (const models::Nic& other : node(there.node).nics) {
      for (const models::IpPrefix& theirs : other.addresses) {
        for (const models::IpPrefix& ours : nic(here).addresses) {
          if (!models::same_subnet(ours, theirs)) continue;
          return fmt::format("{}/{} is in {}, too: are two plugs swapped?", node(there.node).name, other.device,
                             subnet_text(theirs));
        }
      }
    }
  }
  return "";
}

void Finder::cable_ends(const models::Cable& cable) {
  const models::Nic &a = nic(cable.a), &b = nic(cable.b);
  for (const models::IpPrefix& left : a.addresses) {
    for (const models::IpPrefix& right : b.addresses) {
      if (!models::overlaps(left, right)) continue;
      const bool passes = contains(left, right.address) && contains(right, left.address);
      add(FindingCode::kWrongPrefix, Severity::kWarning, cable_place(cable),
          fmt::format("the subnets of {} ({}) and {} ({}) overlap, but have different prefix lengths{}", to_text(left),
                      name(cable.a), to_text(right), name(cable.b),
                      passes ? "" : ": only one end finds the other in its own, and no packet passes"),
          "give both ends the same prefix length");
    }
  }
  if (a.mtu_bytes != b.mtu_bytes) {
    const std::uint32_t least = std::min(a.mtu_bytes, b.mtu_bytes);
    add(FindingCode::kCableMtu, Severity::kWarning, cable_place(cable),
        fmt::format("the MTU is {} at {} and {} at {}: RDMA goes in packets of {} bytes, and larger IP packets than {} "
                    "are dropped",
                    a.mtu_bytes, name(cable.a), b.mtu_bytes, name(cable.b), models::rdma_mtu_bytes(least), least),
        "give both ends the same MTU");
  }
  if (a.rate_bps != b.rate_bps) {
    add(FindingCode::kCableRate, Severity::kWarning, cable_place(cable),
        fmt::format("{} runs at {}, {} at {}: the cable carries the lower rate", name(cable.a), rate_text(a.rate_bps),
                    name(cable.b), rate_text(b.rate_bps)));
  }
}

void Finder::cable_vlans() {
  for (const models::CrossedCable& crossed : topology_.crossed) {
    if (!crossed.is_other_vlan()) continue;
    const models::Cable& cable = cluster_.cables[static_cast<std::size_t>(crossed.cable)];
    add(FindingCode::kCableVlan, Severity::kWarning, cable_place(cable),
        fmt::format("{} is in {}, {} in {}, so that no packet passes over it", function_text(cluster_, cable.a),
                    vlan_text(crossed.a_vlan), function_text(cluster_, cable.b), vlan_text(crossed.b_vlan)),
        "give both ends the same vlan");
  }
}

}  // namespace meshbed::testbed
