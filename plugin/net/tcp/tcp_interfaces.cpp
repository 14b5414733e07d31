#include "plugin/net/tcp/tcp_interfaces.h"

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/base/interface_list.h"

namespace meshbed::net {
namespace {

/// Bridges that have the same address on every machine, so that no other machine is reached through them.
constexpr std::array<std::string_view, 2> kSameEverywhere{"docker", "virbr"};

/// 127.0.0.0/8 and ::1.
bool is_loopback(const IpAddress& address) {
  if (address.family == Family::kIpv4) return address.bytes[0] == 127;
  return std::all_of(address.bytes.begin(), address.bytes.end() - 1, [](auto byte) { return byte == 0; }) &&
         address.bytes.back() == 1;
}

/// Families in their order of preference; -1: not wanted.
int family_place(const std::optional<Family>& wanted, Family family) {
  if (wanted) return *wanted == family ? 0 : -1;
  return family == Family::kIpv4 ? 0 : 1;
}

}  // namespace

std::vector<InterfaceAddress> usable_interfaces(const std::vector<InterfaceAddress>& interfaces,
                                                const InterfaceChoice& choice) {
  const bool named = names_interfaces(choice.list);
  std::vector<std::pair<std::pair<std::size_t, int>, InterfaceAddress>> placed;
  for (const InterfaceAddress& interface : interfaces) {
    if (!interface.up || is_link_local(interface.prefix.address)) continue;
    if (is_loopback(interface.prefix.address) && !names_exactly(choice.list, interface.netdev)) continue;
    const bool same_everywhere = std::any_of(kSameEverywhere.begin(), kSameEverywhere.end(),
                                             [&](auto name) { return interface.netdev.rfind(name, 0) == 0; });
    const bool cable = choice.cables != nullptr && choice.cables->count(interface.netdev) != 0;
    if (!named && (same_everywhere || cable)) continue;
    const auto place = interface_place(choice.list, interface.netdev);
    const int family = family_place(choice.family, interface.prefix.address.family);
    if (place && family >= 0) placed.push_back({{*place, family}, interface});
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<InterfaceAddress> usable;
  for (auto& entry : placed) usable.push_back(std::move(entry.second));
  return usable;
}

std::vector<TcpRoute> tcp_routes(const std::vector<InterfaceAddress>& own, std::span<const PeerAddress> peer,
                                 const std::string& preferred, bool same_node) {
  std::vector<TcpRoute> routes;
  const auto add = [&](bool on_preferred, bool on_link) {
    for (const InterfaceAddress& local : own) {
      if ((local.netdev == preferred) != on_preferred) continue;
      for (const PeerAddress& remote : peer) {
        const IpAddress& address = remote.prefix.address;
        if (local.prefix.address.family != address.family) continue;
        // If another node has the same address, it belongs to a bridge that every machine has.
        if (local.prefix.address == address && !same_node) continue;
        if (shared_bits(local.prefix, remote.prefix).has_value() != on_link) continue;
        routes.push_back({.netdev = local.netdev, .local = local.prefix, .remote = address});
      }
    }
  };
  for (const bool on_link : {true, false}) {
    add(true, on_link);
    add(false, on_link);
  }
  return routes;
}

}  // namespace meshbed::net
