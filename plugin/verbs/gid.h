#pragma once
// A port's GID table: its addresses and their RoCE versions. man ibv_query_gid_ex(3).

#include <array>
#include <cstdint>
#include <string>
#include <vector>

struct ibv_context;

namespace meshbed::verbs {

/// 16 raw bytes, network order. IPv4 addresses are mapped: ::ffff:a.b.c.d.
using Gid = std::array<std::uint8_t, 16>;

enum class GidType : std::uint8_t { kRoceV1 = 1, kRoceV2 = 2 };

struct GidEntry {
  std::uint32_t index = 0;
  GidType type = GidType::kRoceV2;
  Gid gid{};
};

const char* to_text(GidType type);
/// As the kernel writes it: eight groups of four hexadecimal digits.
std::string to_text(const Gid& gid);

struct GidTable {
  ibv_context* context = nullptr;
  std::string device;  // name below /sys/class/infiniband
  std::uint8_t port = 1;
  int entries = 0;  // of this port
  int device_ports = 1;
};

/// All non-empty RoCE entries of a port, by index; empty where the table cannot be read.
std::vector<GidEntry> read_gids(const GidTable& table);

}  // namespace meshbed::verbs
