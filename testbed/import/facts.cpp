#include "testbed/import/facts.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

namespace meshbed::testbed::hosts {
namespace {

/// By VALUE of the member; nics_.end() where there is none.
template <typename Member>
auto find_by(std::vector<NicFacts>& nics, Member member, const std::string& value) {
  return std::find_if(nics.begin(), nics.end(),
                      [&](const NicFacts& nic) { return (nic.*member).known() && (nic.*member).value == value; });
}

template <typename T>
void take(Fact<T>& into, const Fact<T>& from) {
  if (from.known()) into.offer(from.value, from.source, from.origin);
}

template <typename T>
void append(std::vector<T>& into, const std::vector<T>& from) {
  into.insert(into.end(), from.begin(), from.end());
}

}  // namespace

void NicFacts::add_gid(const GidFact& gid) {
  const auto known =
      std::find_if(gids.begin(), gids.end(), [&](const GidFact& each) { return each.index == gid.index; });
  if (known == gids.end()) {
    gids.push_back(gid);
  } else if (known->type.empty()) {
    known->type = gid.type;
  }
}

void NicFacts::merge(const NicFacts& from) {
  take(mac, from.mac);
  take(node_guid, from.node_guid);
  take(image_guid, from.image_guid);
  take(link_layer, from.link_layer);
  take(rdma_port, from.rdma_port);
  take(mtu_bytes, from.mtu_bytes);
  take(active_mtu_bytes, from.active_mtu_bytes);
  take(link_up, from.link_up);
  take(rate_bps, from.rate_bps);
  take(pci_address, from.pci_address);
  take(bond_mode, from.bond_mode);
  take(bond_hash, from.bond_hash);
  take(bond_active, from.bond_active);
  append(addresses, from.addresses);
  for (const GidFact& gid : from.gids) add_gid(gid);
  append(lldp, from.lldp);
  append(neighbours, from.neighbours);
  for (auto member : {&NicFacts::kind, &NicFacts::parent, &NicFacts::master, &NicFacts::default_via, &NicFacts::dhcp}) {
    if ((this->*member).empty()) this->*member = from.*member;
  }
}

NicFacts& HostFacts::by_netdev(const std::string& netdev, const std::string& source, Origin origin) {
  auto found = find_by(nics, &NicFacts::netdev, netdev);
  if (found == nics.end()) found = nics.insert(nics.end(), NicFacts{});
  found->netdev.offer(netdev, source, origin);
  return *found;
}

NicFacts& HostFacts::by_device(const std::string& device, const std::string& source) {
  auto found = find_by(nics, &NicFacts::device, device);
  if (found == nics.end()) found = nics.insert(nics.end(), NicFacts{});
  found->device.offer(device, source);
  return *found;
}

NicFacts& HostFacts::join(const std::string& device, const std::string& netdev, const std::string& source) {
  const auto with_device = find_by(nics, &NicFacts::device, device);
  const auto with_netdev = find_by(nics, &NicFacts::netdev, netdev);
  if (with_device == nics.end()) {
    NicFacts& nic = by_netdev(netdev, source);
    nic.device.offer(device, source);
    return nic;
  }
  if (with_device->netdev.known() && with_device->netdev.value != netdev) {
    return by_netdev(netdev, source);  // a further port of the device, which no scenario has
  }
  if (with_netdev == nics.end()) {
    with_device->netdev.offer(netdev, source);
    return *with_device;
  }
  if (with_device == with_netdev) return *with_device;
  // Two files spoke of one NIC, the one by its netdev, the other by its device.
  const bool keeps_netdev = with_netdev < with_device;
  const auto kept = keeps_netdev ? with_netdev : with_device, gone = keeps_netdev ? with_device : with_netdev;
  kept->merge(*gone);
  kept->device.offer(device, source);
  kept->netdev.offer(netdev, source);
  const auto place = kept - nics.begin();
  nics.erase(gone);
  return nics[static_cast<std::size_t>(place)];
}

std::string HostFacts::netdev_with(const std::string& mac) const {
  if (mac.empty()) return "";
  for (const NicFacts& nic : nics) {
    if (nic.mac.known() && nic.mac.value == mac && nic.kind.empty()) return nic.netdev.value;
  }
  return "";
}

void HostFacts::leave_out(LeftOut each) {
  const bool is_known =
      std::any_of(left_out.begin(), left_out.end(), [&](const LeftOut& known) { return known.name == each.name; });
  if (!is_known) left_out.push_back(std::move(each));
}

void HostFacts::settle_names() {
  const auto named = [&](const std::string& name) {
    const auto found = own_names.find(name);
    return found == own_names.end() ? name : found->second;
  };
  for (const MembershipFact& each : memberships) {
    const std::string above = named(each.above);
    if (each.member.find_first_of("*?[") == std::string::npos) {
      NicFacts& nic = by_netdev(named(each.member), each.source, Origin::kConfigured);
      if (nic.master.empty()) nic.master = above;
      continue;
    }
    for (NicFacts& nic : nics) {
      const bool fits = nic.netdev.known() && nic.kind.empty() && nic.netdev.value != above &&
                        fnmatch(each.member.c_str(), nic.netdev.value.c_str(), 0) == 0;
      if (fits && nic.master.empty()) nic.master = above;
    }
  }
  memberships.clear();
  for (NicFacts& nic : nics) nic.parent = named(nic.parent);
}

void HostFacts::take_route(const std::string& netdev, const std::string& destination, const std::string& gateway,
                           const std::string& source, Origin origin) {
  const bool is_default = destination == "default" || destination == "0.0.0.0/0" || destination == "::/0";
  if (!is_default || gateway.empty()) return;
  NicFacts& nic = by_netdev(netdev, source, origin);
  if (nic.default_via.empty()) nic.default_via = source;
}

}  // namespace meshbed::testbed::hosts
