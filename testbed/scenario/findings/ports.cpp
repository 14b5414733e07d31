// Checks of NICs, one by one.

#include <algorithm>
#include <optional>

#include "models/lan/bond.h"
#include "models/pcie.h"
#include "testbed/base/units.h"
#include "testbed/scenario/findings/finder.h"

namespace meshbed::testbed {

using models::PortRef;

void Finder::ports() {
  std::set<PortRef> cabled;
  for (const models::Cable& cable : cluster_.cables) cabled.insert({cable.a, cable.b});
  for (const models::Switch& box : cluster_.switches) cabled.insert(box.ports.begin(), box.ports.end());
  for (std::size_t node = 0; node < cluster_.nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < cluster_.nodes[node].nics.size(); ++nic) {
      const PortRef own{static_cast<int>(node), static_cast<int>(nic)};
      if (cabled.count(own) != 0) address_of(own);
      // Of a RoCE LAG any function will do.
      const std::vector<PortRef> functions = models::functions_of(cluster_, own);
      port(own, std::any_of(functions.begin(), functions.end(),
                            [&](PortRef function) { return cabled.count(function) != 0; }));
    }
  }
}

void Finder::address_of(PortRef port) {
  // A bond's functions have none but the one that carries the bond's.
  const models::Bond* const bond = models::bond_of(cluster_, port);
  if (!nic(port).addresses.empty() || (bond != nullptr && bond->functions.front() != port.nic)) return;
  if (is_joined(port)) {
    return add(FindingCode::kLinkLocalOnly, Severity::kNote, name(port),
               "it has no address, and is used by its link-local GID");
  }
  const std::string reason = why_link_local_is_idle(port);
  if (is_ours() && reason.empty()) {
    return add(FindingCode::kLinkLocalOnly, Severity::kNote, name(port),
               "it has no address: its link-local GID carries stripes of long messages beside the node's other cables");
  }
  add(FindingCode::kLinkLocalOnly, Severity::kWarning, name(port),
      "it is cabled but has no address: only its link-local GID is left, and it is not used" + reason,
      "give both ends of the cable addresses of one subnet");
}

/// The plugin stripes over it where the port at the other end is alike, and a connection between the two nodes stands
/// on another cable. Empty: it does.
std::string Finder::why_link_local_is_idle(PortRef port) const {
  if (!is_ours()) return "";
  std::vector<PortRef> others = models::link_local_peers(cluster_, port);
  if (others.empty()) return ": the other end has an address";
  std::erase_if(others, [&](PortRef other) { return models::direct_paths(later_, port.node, other.node).empty(); });
  if (others.empty()) return ": no cable with addresses joins the two nodes";
  const auto is_pinned = [this](PortRef of) {
    const auto& variables = node(of.node).environment;
    return std::any_of(variables.begin(), variables.end(),
                       [](const auto& variable) { return variable.first == "NCCL_IB_GID_INDEX"; });
  };
  const bool all_pinned = is_pinned(port) || std::all_of(others.begin(), others.end(), is_pinned);
  return all_pinned ? ": NCCL_IB_GID_INDEX pins another GID" : "";
}

void Finder::port(PortRef port, bool is_cabled) {
  const models::Nic& one = nic(port);
  if (!is_cabled && !one.addresses.empty()) {
    add(FindingCode::kNoCable, Severity::kWarning, name(port),
        fmt::format("it has {} but no cable", to_text(one.addresses.front())));
  }
  if (is_cabled) {
    if (!one.link_up) add(FindingCode::kLinkDown, Severity::kWarning, name(port), "it is down from the start");
    const models::Bond* const bond = models::bond_of(cluster_, port);
    if (bond == nullptr || bond->functions.front() == port.nic) pinned_gid(port);
    narrow_pcie(port);
    hidden_route(port);
  }
  gids_of(port);
}

void Finder::gids_of(PortRef port) {
  for (const models::IpPrefix& prefix : nic(port).addresses) {
    const models::RawGid gid = models::gid_of(prefix.address);
    const auto& gids = nic(port).gids;
    if (std::any_of(gids.begin(), gids.end(), [&](const models::GidEntry& entry) {
          return entry.type == models::GidType::kRoceV2 && entry.gid == gid;
        })) {
      continue;
    }
    add(FindingCode::kNoGid, Severity::kWarning, name(port),
        fmt::format("it has no RoCE v2 GID for {}: peers that expect one cannot connect", to_text(prefix.address)));
  }
}

/// Routes by way of a router that the plugin does not see.
void Finder::hidden_route(PortRef port) {
  const models::Nic& one = nic(port);
  const auto& variables = node(port.node).environment;
  const bool is_set = std::any_of(variables.begin(), variables.end(),
                                  [](const auto& variable) { return variable.first == "NCCL_MESH_ALLOW_ROUTED"; });
  if (one.router < 0 || !one.policy_routed || is_set || !is_ours()) return;
  add(FindingCode::kHiddenRoute, Severity::kWarning, name(port),
      fmt::format("its routes by way of {} are in a table of its own (gateway_table = \"policy\"), which "
                  "/proc/net/route does not show: nothing goes over it",
                  cluster_.routers[static_cast<std::size_t>(one.router)].name),
      "set NCCL_MESH_ALLOW_ROUTED=1");
}

/// A function that its PCIe link can never feed.
void Finder::narrow_pcie(PortRef port) {
  const models::Nic& one = nic(port);
  if (models::behind_pcie_bps(node(port.node), one, one.rate_bps) == one.rate_bps) return;
  const models::PcieLink& link = node(port.node).pcie[static_cast<std::size_t>(one.pcie)];
  add(FindingCode::kNarrowPcie, Severity::kNote, name(port),
      fmt::format("its port has {}, its PCIe link {}: it gets no more than the link carries", rate_text(one.rate_bps),
                  rate_text(link.rate_bps)),
      "[[node.pcie]] describes the link");
}

/// A pinned index that the port lacks: nothing connects over it.
void Finder::pinned_gid(PortRef port) {
  const models::Nic& one = nic(port);
  for (const auto& [key, value] : node(port.node).environment) {
    if (key != "NCCL_IB_GID_INDEX") continue;
    const bool is_index = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    const bool has_it = std::any_of(one.gids.begin(), one.gids.end(), [&value = value](const models::GidEntry& entry) {
      return std::to_string(entry.index) == value;
    });
    if (!is_index || has_it) continue;
    std::string indices;
    for (const models::GidEntry& entry : one.gids) {
      indices += (indices.empty() ? "" : ", ") + std::to_string(entry.index);
    }
    add(FindingCode::kPinnedGid, Severity::kWarning, name(port),
        fmt::format("it has no GID at NCCL_IB_GID_INDEX={}, and is not used; it has {}", value,
                    indices.empty() ? "none" : indices),
        "leave the variable unset");
  }
}

}  // namespace meshbed::testbed
