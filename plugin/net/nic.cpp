#include "plugin/net/nic.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kLargestGidIndex = 255;

std::optional<verbs::GidEntry> entry_at(const Nic& nic, int index) {
  for (const verbs::GidEntry& entry : nic.gids) {
    if (index >= 0 && entry.index == static_cast<std::uint32_t>(index) && entry.index <= kLargestGidIndex) return entry;
  }
  return std::nullopt;
}

}  // namespace

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
