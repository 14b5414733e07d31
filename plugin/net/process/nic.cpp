#include "plugin/net/process/nic.h"

#include <algorithm>

namespace meshbed::net {
namespace {

constexpr std::uint32_t kLargestGidIndex = 255;
constexpr std::uint32_t kManagementMostMbps = 25'000;
constexpr std::uint32_t kFastLeastMbps = 50'000;

std::optional<verbs::GidEntry> entry_at(const Nic& nic, int index) {
  for (const verbs::GidEntry& entry : nic.gids) {
    if (index >= 0 && entry.index == static_cast<std::uint32_t>(index) && entry.index <= kLargestGidIndex) return entry;
  }
  return std::nullopt;
}

template <typename Predicate>
void keep_if_any(std::vector<IpPrefix>& addresses, Predicate keep) {
  if (std::none_of(addresses.begin(), addresses.end(), keep)) return;
  std::erase_if(addresses, [&](const IpPrefix& prefix) { return !keep(prefix); });
}

}  // namespace

NicRole role_of(const Nic& nic, const std::vector<Nic>& of_node) {
  if (!nic.link_up || !nic.rate_known) return NicRole::kUnknown;
  const bool beside_fast = std::any_of(of_node.begin(), of_node.end(), [](const Nic& other) {
    return other.rate_known && other.rate_mbps >= kFastLeastMbps;
  });
  return nic.rate_mbps <= kManagementMostMbps && beside_fast ? NicRole::kManagement : NicRole::kFast;
}

bool takes_management(bool use_management, const std::string& hca_list) {
  return use_management || (!hca_list.empty() && hca_list.front() != '^');
}

std::optional<verbs::GidEntry> find_gid(const Nic& nic, const IpAddress& address, const GidPreference& preference) {
  if (preference.forced_index >= 0) return entry_at(nic, preference.forced_index);
  const verbs::Gid wanted = gid_of(address);
  const auto wanted_type = preference.roce_v2 ? verbs::GidType::kRoceV2 : verbs::GidType::kRoceV1;
  std::optional<verbs::GidEntry> other_type;
  for (const verbs::GidEntry& entry : nic.gids) {
    if (entry.gid != wanted || entry.index > kLargestGidIndex) continue;
    if (entry.type == wanted_type) return entry;
    if (!other_type) other_type = entry;
  }
  if (other_type) return other_type;
  return entry_at(nic, preference.last_resort);
}

bool gid_may_answer(const Nic& nic, const verbs::Gid& gid, const IpAddress& address, const GidPreference& preference) {
  if (gid == gid_of(address)) return true;
  if (preference.forced_index < 0 && preference.last_resort < 0) return false;
  const IpAddress named = address_of(gid);
  return is_link_local(named) || std::any_of(nic.addresses.begin(), nic.addresses.end(),
                                             [&](const IpPrefix& own) { return contains(own, named); });
}

std::string foreign_gid_text(const verbs::Gid& gid, const IpAddress& address) {
  return "the peer's GID " + verbs::to_text(gid) + " is not that of its address " + to_text(address) +
         ": it does not resolve here (is NCCL_IB_GID_INDEX the right one there?)";
}

std::vector<IpPrefix> addresses_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces,
                                   const AddressPreference& preference) {
  std::vector<IpPrefix> addresses;
  for (const InterfaceAddress& candidate : interfaces) {
    const verbs::Gid gid = gid_of(candidate.prefix.address);
    const bool in_table =
        std::any_of(nic.gids.begin(), nic.gids.end(), [&](const verbs::GidEntry& entry) { return entry.gid == gid; });
    if (in_table || (!nic.netdev.empty() && candidate.netdev == nic.netdev)) addresses.push_back(candidate.prefix);
  }
  keep_if_any(addresses, [](const IpPrefix& prefix) { return !is_link_local(prefix.address); });
  keep_if_any(addresses, [&](const IpPrefix& prefix) {
    return !preference.family || prefix.address.family == *preference.family;
  });
  keep_if_any(addresses,
              [&](const IpPrefix& prefix) { return !preference.range || contains(*preference.range, prefix.address); });
  return addresses;
}

std::optional<IpPrefix> link_local_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces) {
  for (const InterfaceAddress& candidate : interfaces) {
    const IpAddress& address = candidate.prefix.address;
    if (candidate.netdev != nic.netdev || address.family != Family::kIpv6 || !is_link_local(address)) continue;
    const verbs::Gid gid = gid_of(address);
    const bool in_table =
        std::any_of(nic.gids.begin(), nic.gids.end(), [&](const verbs::GidEntry& entry) { return entry.gid == gid; });
    if (in_table) return candidate.prefix;
  }
  return std::nullopt;
}

std::string addressed_netdev(const Nic& nic, const std::vector<InterfaceAddress>& interfaces) {
  if (nic.netdev.empty()) return "";  // the interface is unknown
  std::string first;
  for (const InterfaceAddress& candidate : interfaces) {
    const auto place = std::find(nic.addresses.begin(), nic.addresses.end(), candidate.prefix);
    if (place == nic.addresses.end()) continue;
    if (candidate.netdev == nic.netdev) return nic.netdev;
    if (place == nic.addresses.begin()) first = candidate.netdev;
  }
  return first.empty() ? nic.netdev : first;
}

bool is_over_cable(const std::vector<Nic>& nics, const IpAddress& own, const IpAddress& client) {
  for (const Nic& nic : nics) {
    if (nic.device < 0) continue;  // an interface, for TCP
    for (const IpPrefix& address : nic.addresses) {
      if (address.address == own && contains(address, client)) return true;
    }
    if (nic.link_local && nic.link_local->address == own && contains(*nic.link_local, client)) return true;
  }
  return false;
}

bool has_ipv6(const std::vector<Nic>& nics) {
  return std::any_of(nics.begin(), nics.end(), [](const Nic& nic) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [](const IpPrefix& prefix) { return prefix.address.family == Family::kIpv6; });
  });
}

std::string describe_subnets(const std::vector<Nic>& nics) {
  std::string text;
  for (const Nic& nic : nics) {
    for (const IpPrefix& address : nic.addresses) {
      if (!text.empty()) text += ", ";
      text += subnet_text(address) + " on " + nic.device_name + (nic.link_up ? "" : " (link down)");
    }
  }
  return text.empty() ? "no RDMA address at all" : text;
}

}  // namespace meshbed::net
