#include "sim/host/file/route_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "models/lan/router.h"
#include "models/lan/vlan.h"
#include "sim/engine/world.h"

namespace meshbed::sim {
namespace {

// linux/route.h, linux/ipv6_route.h.
constexpr unsigned kUp = 0x1, kGateway = 0x2;
/// Of interfaces that have routes to one destination; the kernel takes no two of one metric.
constexpr unsigned kFirstMetric = 100;
constexpr std::size_t kLineLength = 127;

struct TableEntry {
  std::string netdev;
  models::IpPrefix destination;
  models::IpAddress gateway;  // zero: on link
  unsigned flags = kUp;
  unsigned metric = kFirstMetric;
};

std::vector<TableEntry> main_table(int node, models::Family family) {
  std::vector<TableEntry> entries;
  const models::Node& own = World::get().node_at(node);
  const models::IpAddress none{.family = family, .bytes = {}};
  const auto connected = [&](const std::string& netdev, const models::IpPrefix& prefix, unsigned metric) {
    if (prefix.address.family != family) return;
    entries.push_back({.netdev = netdev, .destination = prefix, .gateway = none, .flags = kUp, .metric = metric});
  };
  unsigned metric = kFirstMetric;
  for (const models::Nic& nic : own.nics) {
    const std::string netdev = models::address_netdev(nic);
    for (const models::IpPrefix& prefix : nic.addresses) connected(netdev, prefix, metric);
    for (const models::GatewayRoute& route : nic.routes) {
      // A NIC that loses its address in the gateway's subnet loses the route.
      if (nic.policy_routed || route.gateway.family != family || models::source_of(nic, route) == nullptr) continue;
      entries.push_back({.netdev = netdev,
                         .destination = route.destination,
                         .gateway = route.gateway,
                         .flags = kUp | kGateway,
                         .metric = metric});
    }
    ++metric;
  }
  if (own.management) connected(own.management->netdev, own.management->address, metric);
  return entries;
}

/// The prefix's bits set, the others not.
std::array<std::uint8_t, 16> prefix_mask(const models::IpPrefix& prefix) {
  std::array<std::uint8_t, 16> mask{};
  for (unsigned bit = 0; bit < prefix.length_bits; ++bit) {
    mask[bit / 8] = static_cast<std::uint8_t>(mask[bit / 8] | (0x80U >> (bit % 8)));
  }
  return mask;
}

std::array<std::uint8_t, 16> prefix_network(const models::IpPrefix& prefix) {
  std::array<std::uint8_t, 16> bytes = prefix_mask(prefix);
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] &= prefix.address.bytes[at];
  return bytes;
}

/// The four bytes in network order, read as a number of this machine's order: what "%08X" of a __be32 prints.
std::uint32_t as_printed(const std::array<std::uint8_t, 16>& bytes) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string hex_text(const std::array<std::uint8_t, 16>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string padded_line(std::string text) {
  text.resize(std::max(text.size(), kLineLength), ' ');
  return text + "\n";
}

}  // namespace

std::string ipv4_route_text(int node) {
  std::string text = padded_line("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT");
  for (const TableEntry& entry : main_table(node, models::Family::kIpv4)) {
    text += padded_line(fmt::format("{}\t{:08X}\t{:08X}\t{:04X}\t0\t0\t{}\t{:08X}\t0\t0\t0", entry.netdev,
                                    as_printed(prefix_network(entry.destination)), as_printed(entry.gateway.bytes),
                                    entry.flags, entry.metric, as_printed(prefix_mask(entry.destination))));
  }
  return text;
}

std::string ipv6_route_text(int node) {
  std::string text;
  for (const TableEntry& entry : main_table(node, models::Family::kIpv6)) {
    text +=
        fmt::format("{} {:02x} {} 00 {} {:08x} {:08x} {:08x} {:08x} {:>8}\n",
                    hex_text(prefix_network(entry.destination)), entry.destination.length_bits, std::string(32, '0'),
                    hex_text(entry.gateway.bytes), entry.metric, 1, 0, entry.flags, entry.netdev);
  }
  return text;
}

}  // namespace meshbed::sim
