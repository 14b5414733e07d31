#include "testbed/import/infer/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/spark.h"

namespace meshbed::testbed::hosts {
namespace {

/// "np0" of enp1s0f0np0; empty: the name has none.
std::string port_number(const std::string& netdev) {
  const std::size_t mark = netdev.rfind("np");
  const bool is_number = mark != std::string::npos && mark + 2 < netdev.size() &&
                         netdev.find_first_not_of("0123456789", mark + 2) == std::string::npos;
  return is_number ? netdev.substr(mark) : "";
}

}  // namespace

void AssumedList::add(const std::string& what, const std::string& place, const std::string& value,
                      const std::string& question) {
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.what == what && entry.value == value && entry.question == question;
  });
  if (same != entries_.end()) {
    same->places.push_back(place);
    return;
  }
  entries_.push_back({what, value, question, {place}});
}

std::vector<Assumed> AssumedList::all() const {
  constexpr std::size_t kNamedMost = 4;
  std::vector<Assumed> list;
  for (const Entry& entry : entries_) {
    const std::size_t named = std::min(entry.places.size(), kNamedMost);
    std::string places = fmt::format(
        "{}", fmt::join(entry.places.begin(), entry.places.begin() + static_cast<std::ptrdiff_t>(named), ", "));
    if (named < entry.places.size()) places += fmt::format(" and {} others", entry.places.size() - named);
    list.push_back({fmt::format("{} of {}", entry.what, places), entry.value, entry.question});
  }
  return list;
}

std::string Mesh::name_of(Port port) const {
  return fmt::format("{}/{}", host_of(port).name.value, nic_of(port).device.value);
}

std::vector<Port> Mesh::ports() const {
  std::vector<Port> list;
  for (std::size_t host = 0; host < machines.hosts.size(); ++host) {
    for (std::size_t nic = 0; nic < machines.hosts[host].nics.size(); ++nic) {
      if (machines.hosts[host].nics[nic].no_mesh.empty()) list.push_back({host, nic});
    }
  }
  return list;
}

const BondFacts* Mesh::bond_of(Port port) const {
  const int bond = nic_of(port).bond;
  return bond < 0 ? nullptr : &host_of(port).bonds.at(static_cast<std::size_t>(bond));
}

std::size_t Mesh::place_in_bond(Port port) const {
  const std::vector<std::string>& members = bond_of(port)->members;
  return static_cast<std::size_t>(std::find(members.begin(), members.end(), nic_of(port).netdev.value) -
                                  members.begin());
}

Port Mesh::addressed(Port port) const {
  const BondFacts* const bond = bond_of(port);
  if (bond == nullptr) return port;
  const auto& nics = host_of(port).nics;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    if (nics[nic].bond == nic_of(port).bond && nics[nic].netdev.value == bond->members.front()) return {port.host, nic};
  }
  return port;
}

std::string Mesh::connector_of(Port port) const {
  const HostFacts& host = host_of(port);
  const NicFacts& nic = nic_of(port);
  if (const BondFacts* const bond = bond_of(port)) return fmt::format("{}/{}", host.name.value, bond->name);
  if (is_spark(host)) {
    const auto function = models::spark_function(nic.device.value);
    if (function) return fmt::format("{}/qsfp{}", host.name.value, function->port);
  }
  // Functions of one adapter on several PCI links: one image GUID, and one port number in the interface's name.
  const std::string number = port_number(nic.netdev.value);
  if (!nic.image_guid.known() || number.empty()) return name_of(port);
  for (std::size_t other = 0; other < port.nic; ++other) {
    const NicFacts& fellow = host.nics[other];
    const bool is_one = fellow.no_mesh.empty() && fellow.image_guid.value == nic.image_guid.value &&
                        port_number(fellow.netdev.value) == number;
    if (is_one) return name_of({port.host, other});
  }
  return name_of(port);
}

}  // namespace meshbed::testbed::hosts
