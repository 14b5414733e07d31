#include "sim/host/socket/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "models/gid_table.h"
#include "models/lan/vlan.h"
#include "sim/engine/network.h"
#include "sim/host/host_state.h"
#include "sim/host/identity.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/endpoint.h"
#include "sim/host/socket/udp_stack.h"

namespace meshbed::sim {
namespace {

/// One element of the list that getifaddrs() gives, with everything that it points to.
struct InterfaceElement {
  ifaddrs entry{};  // first: freeifaddrs() gets its address
  sockaddr_storage address{}, mask{}, broadcast{};
  std::array<char, IF_NAMESIZE> name{};
};

models::IpAddress mask_of(const models::IpPrefix& prefix) {
  models::IpAddress mask{.family = prefix.address.family, .bytes = {}};
  for (unsigned bit = 0; bit < prefix.length_bits; ++bit) {
    mask.bytes[bit / 8] = static_cast<std::uint8_t>(mask.bytes[bit / 8] | (0x80U >> (bit % 8)));
  }
  return mask;
}

sockaddr* put(const models::IpAddress& address, sockaddr_storage& storage) {
  auto* result = reinterpret_cast<sockaddr*>(&storage);
  socklen_t length = sizeof(storage);
  const int family = address.family == models::Family::kIpv4 ? AF_INET : AF_INET6;
  write_sockaddr(family, {.address = address, .port = 0}, result, &length);
  return result;
}

std::unique_ptr<InterfaceElement> make_element(const Interface& interface, const models::IpPrefix& prefix) {
  auto element = std::make_unique<InterfaceElement>();
  const std::size_t length = std::min(interface.name.size(), element->name.size() - 1);
  std::memcpy(element->name.data(), interface.name.data(), length);
  ifaddrs& entry = element->entry;
  entry.ifa_name = element->name.data();
  unsigned flags = IFF_UP;
  if (interface.running) flags |= IFF_RUNNING;
  flags |= interface.loopback ? unsigned{IFF_LOOPBACK} : unsigned{IFF_BROADCAST} | unsigned{IFF_MULTICAST};
  entry.ifa_flags = flags;
  entry.ifa_addr = put(prefix.address, element->address);
  entry.ifa_netmask = put(mask_of(prefix), element->mask);
  if (!interface.loopback && prefix.address.family == models::Family::kIpv4) {
    entry.ifa_broadaddr = put(broadcast_of(prefix), element->broadcast);
  }
  return element;
}

int get_interface_addresses(ifaddrs** list) {
  if (outside()) return ::getifaddrs(list);
  ifaddrs** end = list;
  *list = nullptr;
  for (const Interface& interface : interfaces_of(World::current_process()->node)) {
    for (const auto& prefix : interface.addresses) {
      InterfaceElement* element = make_element(interface, prefix).release();
      *end = &element->entry;
      end = &element->entry.ifa_next;
    }
  }
  return 0;
}

void free_interface_addresses(ifaddrs* list) {
  if (outside()) {
    ::freeifaddrs(list);
    return;
  }
  while (list != nullptr) {
    const std::unique_ptr<InterfaceElement> element(reinterpret_cast<InterfaceElement*>(list));
    list = list->ifa_next;
  }
}

unsigned index_of_name(const char* name) {
  if (outside()) return ::if_nametoindex(name);
  for (const Interface& interface : interfaces_of(World::current_process()->node)) {
    if (interface.name == name) return interface.index;
  }
  errno = ENODEV;
  return 0;
}

char* name_of_index(unsigned index, char* name) {
  if (outside()) return ::if_indextoname(index, name);
  for (const Interface& interface : interfaces_of(World::current_process()->node)) {
    if (interface.index != index) continue;
    const std::size_t length = std::min<std::size_t>(interface.name.size(), IF_NAMESIZE - 1);
    std::memcpy(name, interface.name.data(), length);
    name[length] = 0;
    return name;
  }
  errno = ENXIO;
  return nullptr;
}

}  // namespace

std::optional<models::IpPrefix> link_local_of(models::PortRef port) {
  const models::Nic& nic = World::get().node_at(port.node).nics[static_cast<std::size_t>(port.nic)];
  if (!nic.addresses.empty()) return std::nullopt;
  const models::IpAddress address = models::link_local_address(port);
  const models::RawGid gid = models::gid_of(address);
  const bool in_table = std::any_of(nic.gids.begin(), nic.gids.end(),
                                    [&](const models::GidEntry& entry) { return entry.gid == gid && entry.vlan == 0; });
  if (!in_table) return std::nullopt;
  return models::IpPrefix{.address = address, .length_bits = 64};
}

std::vector<Interface> interfaces_of(int node) {
  const auto& world = World::get();
  const models::Node& own = world.cluster().at(node);
  models::IpPrefix loopback4{.address = any_address(AF_INET), .length_bits = 8};
  loopback4.address.bytes = {127, 0, 0, 1};
  models::IpPrefix loopback6{.address = any_address(AF_INET6), .length_bits = 128};
  loopback6.address.bytes[15] = 1;
  std::vector<Interface> interfaces{
      {.name = "lo", .index = 1, .loopback = true, .running = true, .addresses = {loopback4, loopback6}}};
  models::PortRef port{node, 0};
  for (const models::Nic& nic : own.nics) {
    interfaces.push_back({.name = nic.netdev,
                          .index = interface_index_of(port),
                          .loopback = false,
                          .running = World::get().network().port_up(port),
                          .addresses = nic.vlan == 0 ? nic.addresses : std::vector<models::IpPrefix>{}});
    if (const auto link_local = link_local_of(port)) interfaces.back().addresses.push_back(*link_local);
    ++port.nic;
  }
  if (own.management) {
    interfaces.push_back({.name = own.management->netdev,
                          .index = interface_index_of(port),
                          .loopback = false,
                          .running = true,
                          .addresses = {own.management->address}});
  }
  port.nic = 0;
  for (const models::Nic& nic : own.nics) {
    if (nic.vlan != 0) {
      interfaces.push_back({.name = models::vlan_netdev(nic),
                            .index = vlan_interface_index_of(port, own.nics.size()),
                            .loopback = false,
                            .running = World::get().network().port_up(port),
                            .addresses = nic.addresses});
    }
    ++port.nic;
  }
  return interfaces;
}

std::span<const Redirection> interface_redirections() {
  static const std::array table{
      redirect("getifaddrs", &get_interface_addresses),
      redirect("freeifaddrs", &free_interface_addresses),
      redirect("if_nametoindex", &index_of_name),
      redirect("if_indextoname", &name_of_index),
  };
  return table;
}

}  // namespace meshbed::sim
