#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "plugin/verbs/gid.h"
#include "plugin/verbs/sysfs.h"

namespace meshbed::verbs {
namespace {

Gid bytes_of(const ibv_gid& raw) {
  Gid gid;
  std::memcpy(gid.data(), raw.raw, gid.size());
  return gid;
}

/// The whole table in one call; nullopt where the library or the kernel cannot do that.
std::optional<std::vector<GidEntry>> read_at_once(const GidTable& table) {
  // The call returns the entries of all ports of the device, and fails if its array is too short.
  std::vector<ibv_gid_entry> raw(static_cast<std::size_t>(table.entries) *
                                 static_cast<std::size_t>(table.device_ports));
  const ssize_t count = ibv_query_gid_table(table.context, raw.data(), raw.size(), 0);
  if (count < 0) return std::nullopt;
  std::vector<GidEntry> gids;
  raw.resize(static_cast<std::size_t>(count));
  for (const ibv_gid_entry& entry : raw) {
    if (entry.port_num != table.port || entry.gid_type == IBV_GID_TYPE_IB) continue;
    const GidType type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? GidType::kRoceV2 : GidType::kRoceV1;
    gids.push_back({.index = entry.gid_index, .type = type, .gid = bytes_of(entry.gid)});
  }
  std::sort(gids.begin(), gids.end(), [](const GidEntry& a, const GidEntry& b) { return a.index < b.index; });
  return gids;
}

/// Entry by entry, with the type out of sysfs. An unreadable type (EINVAL for an empty entry, a container that hides
/// sysfs) counts as RoCE v1, which is what kernels before types existed spoke.
std::vector<GidEntry> read_one_by_one(const GidTable& table) {
  const std::string types =
      "/sys/class/infiniband/" + table.device + "/ports/" + std::to_string(table.port) + "/gid_attrs/types/";
  std::vector<GidEntry> gids;
  for (int index = 0; index < table.entries; ++index) {
    ibv_gid raw{};
    if (ibv_query_gid(table.context, table.port, index, &raw) != 0) continue;
    const Gid gid = bytes_of(raw);
    if (gid == Gid{}) continue;
    const auto type = read_line(types + std::to_string(index));
    gids.push_back({.index = static_cast<std::uint32_t>(index),
                    .type = type && type->find("v2") != std::string::npos ? GidType::kRoceV2 : GidType::kRoceV1,
                    .gid = gid});
  }
  return gids;
}

}  // namespace

std::vector<GidEntry> read_gids(const GidTable& table) {
  if (table.entries <= 0) return {};
  if (auto gids = read_at_once(table)) return *std::move(gids);
  return read_one_by_one(table);
}

}  // namespace meshbed::verbs
