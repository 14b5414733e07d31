#include "plugin/net/process/route_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

namespace meshbed::net {
namespace {

// The flags of linux/route.h and linux/ipv6_route.h, which are equal.
constexpr std::uint32_t kUp = 0x1, kGateway = 0x2, kReject = 0x200;
constexpr std::size_t kIpv4Fields = 8, kIpv6Fields = 10;
/// Bound on what is read: no host has a table of this size (a million routes are 128 MB).
constexpr std::size_t kFileBytesMost = std::size_t{16} << 20U;

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    if (end > at) fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

template <typename Work>
void for_each_line(std::string_view text, const Work& work) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    work(fields_of(text.substr(at, end - at)));
    at = end + 1;
  }
}

std::optional<std::uint32_t> hex_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A __be32 as "%08X" prints it: its bytes are in network order in this machine's memory.
IpAddress ipv4_of(std::uint32_t printed) {
  IpAddress address;
  std::memcpy(address.bytes.data(), &printed, sizeof printed);
  return address;
}

std::optional<IpAddress> ipv6_of(std::string_view text) {
  IpAddress address{.family = Family::kIpv6, .bytes = {}};
  if (text.size() != 2 * address.bytes.size()) return std::nullopt;
  for (std::size_t at = 0; at < address.bytes.size(); ++at) {
    const auto byte = hex_number(text.substr(2 * at, 2));
    if (!byte) return std::nullopt;
    address.bytes[at] = static_cast<std::uint8_t>(*byte);
  }
  return address;
}

bool is_by_gateway(std::uint32_t flags) { return (flags & (kUp | kGateway | kReject)) == (kUp | kGateway); }

std::string read_all(const char* path) {
  std::string text;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char piece[4096];
  while (text.size() < kFileBytesMost) {
    const ssize_t length = ::read(file, piece, sizeof piece);
    if (length <= 0) break;
    text.append(piece, static_cast<std::size_t>(length));
  }
  ::close(file);
  return text;
}

}  // namespace

std::vector<GatewayRoute> parse_ipv4_routes(std::string_view text) {
  std::vector<GatewayRoute> routes;
  for_each_line(text, [&](const std::vector<std::string_view>& fields) {
    // Iface Destination Gateway Flags RefCnt Use Metric Mask ...; the first line contains these names.
    if (fields.size() < kIpv4Fields) return;
    const auto destination = hex_number(fields[1]), gateway = hex_number(fields[2]), flags = hex_number(fields[3]),
               mask = hex_number(fields[7]);
    if (!destination || !gateway || !flags || !mask || !is_by_gateway(*flags)) return;
    routes.push_back({.netdev = std::string(fields[0]),
                      .destination = {.address = ipv4_of(*destination),
                                      .length_bits = static_cast<std::uint8_t>(std::popcount(*mask))},
                      .gateway = ipv4_of(*gateway)});
  });
  return routes;
}

std::vector<GatewayRoute> parse_ipv6_routes(std::string_view text) {
  std::vector<GatewayRoute> routes;
  for_each_line(text, [&](const std::vector<std::string_view>& fields) {
    // destination length source length next-hop metric refcount use flags interface.
    if (fields.size() < kIpv6Fields) return;
    const auto destination = ipv6_of(fields[0]), gateway = ipv6_of(fields[4]);
    const auto length = hex_number(fields[1]), flags = hex_number(fields[8]);
    if (!destination || !gateway || !length || *length > address_bits(Family::kIpv6) || !flags) return;
    if (!is_by_gateway(*flags)) return;
    routes.push_back({.netdev = std::string(fields[9]),
                      .destination = {.address = *destination, .length_bits = static_cast<std::uint8_t>(*length)},
                      .gateway = *gateway});
  });
  return routes;
}

std::vector<GatewayRoute> read_gateway_routes() {
  std::vector<GatewayRoute> routes = parse_ipv4_routes(read_all("/proc/net/route"));
  for (GatewayRoute& route : parse_ipv6_routes(read_all("/proc/net/ipv6_route"))) routes.push_back(std::move(route));
  return routes;
}

std::optional<unsigned> routed_bits(std::span<const GatewayRoute> routes, const std::string& netdev,
                                    const IpAddress& address) {
  std::optional<unsigned> longest;
  for (const GatewayRoute& route : routes) {
    if (netdev.empty() || route.netdev != netdev || !contains(route.destination, address)) continue;
    longest = std::max<unsigned>(longest.value_or(0), route.destination.length_bits);
  }
  return longest;
}

}  // namespace meshbed::net
