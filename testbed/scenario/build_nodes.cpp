// Nodes and NICs that the file lists: new ones, and changes to generated ones.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/lan/vlan.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {
namespace {

/// rocep1s0f0 -> enp1s0f0np0, as systemd names the two; any other device: ethN.
std::string default_netdev(const std::string& device, int index) {
  if (device.rfind("roce", 0) == 0 && device.size() > 5) {
    const std::string name = fmt::format("en{}np{}", device.substr(4), device.back());
    if (name.size() <= kNetdevNameMax) return name;
  }
  return fmt::format("eth{}", index);
}

}  // namespace

void Builder::name_new_nic(models::Nic& nic, const NicSpec& spec, int index) {
  models::name_nic(nic, index);  // for the PCI function; the names follow the file
  nic.device = spec.device;
  nic.netdev = default_netdev(spec.device, index);
  nic.rate_bps = spec_.topology.rate_bps;
  nic.mtu_bytes = spec_.topology.mtu_bytes;
}

std::vector<models::IpPrefix> Builder::host_addresses(const std::vector<Located<models::IpPrefix>>& listed) {
  std::vector<models::IpPrefix> addresses;
  for (const auto& address : listed) {
    if (models::is_network_or_broadcast(address.value)) {
      diagnostics_.add(
          address.place,
          fmt::format("addresses: {} is outside the host addresses of its prefix: it is the {} address of {}",
                      to_text(address.value),
                      subnet_text(address.value) == to_text(address.value) ? "network" : "broadcast",
                      subnet_text(address.value)));
    }
    addresses.push_back(address.value);
  }
  return addresses;
}

void Builder::overlay_nic(models::Nic& nic, const NicSpec& spec) {
  if (spec.has("netdev")) {
    nic.netdev = spec.netdev;
    if (nic.netdev.size() > kNetdevNameMax) {
      diagnostics_.add(spec.at("netdev"),
                       fmt::format("netdev: '{}' is longer than {} characters, the most that Linux allows", nic.netdev,
                                   kNetdevNameMax));
    }
  }
  if (spec.has("addresses")) nic.addresses = host_addresses(spec.addresses);
  if (spec.has("rate")) nic.rate_bps = spec.rate_bps;
  if (spec.has("mtu")) nic.mtu_bytes = spec.mtu_bytes;
  if (spec.has("port")) nic.port = static_cast<std::uint8_t>(spec.port);
  if (spec.has("link")) nic.link_up = spec.link != "down";
  if (spec.has("pci_path")) nic.pci_path = spec.pci_path;
  if (spec.has("switch_mtu")) nic.switch_mtu_bytes = spec.switch_mtu_bytes;
  if (spec.has("vlan")) nic.vlan = spec.vlan;
  if (nic.vlan != 0 && models::vlan_netdev(nic).size() > kNetdevNameMax) {
    diagnostics_.add(spec.at("vlan"),
                     fmt::format("vlan: its interface '{}' has a name longer than {} characters, the most that Linux "
                                 "allows; give the NIC a shorter netdev, as \"eth0\"",
                                 models::vlan_netdev(nic), kNetdevNameMax));
  }
  if (!spec.has("gids")) return;
  if (spec.gids.empty()) {
    diagnostics_.add(spec.at("gids"), "gids: is empty; leave it out for the table that Linux fills");
  }
  std::set<std::uint32_t> indices;
  for (const auto& gid : spec.gids) {
    if (!gid.has("index") || !gid.has("address")) {
      diagnostics_.add(gid.place, "gids: an entry needs index and address");
    } else if (!indices.insert(gid.index).second) {
      diagnostics_.add(gid.at("index"), fmt::format("gids: index {} is listed twice", gid.index));
    }
    nic.gids.push_back({gid.index, gid.type == "v1" ? models::GidType::kRoceV1 : models::GidType::kRoceV2,
                        models::gid_of(gid.address), nic.vlan});
  }
  std::sort(nic.gids.begin(), nic.gids.end(),
            [](const models::GidEntry& left, const models::GidEntry& right) { return left.index < right.index; });
}

void Builder::add_nics(int node, const NodeSpec& spec) {
  std::set<std::string> listed;
  for (const auto& nic_spec : spec.nics) {
    if (nic_spec.device.empty()) {
      if (!nic_spec.has("device")) diagnostics_.add(nic_spec.place, "[[node.nic]] needs device");
      continue;
    }
    if (!listed.insert(nic_spec.device).second) {
      diagnostics_.add(nic_spec.at("device"),
                       fmt::format("device: '{}' is listed twice on {}", nic_spec.device, node_at(node).name));
      continue;
    }
    const Place& place = nic_spec.at("addresses");
    auto& nics = node_at(node).nics;
    int index = find_nic(node_at(node), nic_spec.device);
    if (index < 0) {
      index = static_cast<int>(nics.size());
      name_new_nic(nics.emplace_back(), nic_spec, index);
      built_.nic_places[static_cast<std::size_t>(node)].push_back(place);
    } else {
      built_.nic_places[static_cast<std::size_t>(node)][static_cast<std::size_t>(index)] = place;
    }
    overlay_nic(nics[static_cast<std::size_t>(index)], nic_spec);
  }
}

void Builder::add_nodes() {
  std::set<std::string> listed;
  for (const auto& spec : spec_.nodes) {
    if (spec.name.empty()) {
      if (!spec.has("name")) diagnostics_.add(spec.place, "[[node]] needs name");
      continue;
    }
    if (!listed.insert(spec.name).second) {
      diagnostics_.add(spec.at("name"), fmt::format("name: two [[node]] are called '{}'", spec.name));
      continue;
    }
    const auto [entry, is_new] = node_index_.emplace(spec.name, static_cast<int>(built_.cluster.nodes.size()));
    if (is_new) {
      if (generated_nodes_ > 0 && spec.nics.empty()) {
        diagnostics_.add(spec.at("name"),
                         fmt::format("name: '{}' is none of the generated nodes ({}) and has no [[node.nic]]",
                                     spec.name, list_names(node_names(built_.cluster))));
      }
      built_.cluster.nodes.emplace_back().name = spec.name;
      built_.nic_places.emplace_back();
      built_.node_places.push_back(spec.place);
    } else {
      built_.node_places[static_cast<std::size_t>(entry->second)] = spec.place;
    }
    add_nics(entry->second, spec);
  }
}

}  // namespace meshbed::testbed
