#include "plugin/net/process/peer_address.h"

#include <algorithm>
#include <string>
#include <utility>

namespace meshbed::net {
namespace {

constexpr std::uint8_t kIpv6Bit = 0x80;

Error refuse_address(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kRequest, .text = std::move(text), .os_errno = 0};
}

std::span<const std::uint8_t> used_bytes(const IpAddress& address) {
  return std::span(address.bytes).first(address_bits(address.family) / 8);
}

}  // namespace

std::size_t encoded_bytes(const PeerAddress& address) { return 2 + used_bytes(address.prefix.address).size(); }

void write_address(ByteWriter& writer, const PeerAddress& address) {
  const bool ipv6 = address.prefix.address.family == Family::kIpv6;
  writer.u8(static_cast<std::uint8_t>(address.nic | (ipv6 ? kIpv6Bit : 0)));
  writer.u8(address.prefix.length_bits);
  writer.bytes(used_bytes(address.prefix.address));
}

Result<PeerAddress> read_address(ByteReader& reader, const char* where) {
  PeerAddress address;
  const std::uint8_t nic = reader.u8();
  address.nic = nic & ~kIpv6Bit;
  address.prefix.address.family = (nic & kIpv6Bit) != 0 ? Family::kIpv6 : Family::kIpv4;
  address.prefix.length_bits = reader.u8();
  const unsigned bits = address_bits(address.prefix.address.family);
  reader.bytes(std::span(address.prefix.address.bytes).first(bits / 8));
  if (!reader.good()) return refuse_address(std::string(where) + "'s address list is cut off");
  if (address.prefix.length_bits > bits)
    return refuse_address(std::string(where) + " has a prefix longer than its address");
  return address;
}

std::vector<PeerAddress> updated(const std::vector<PeerAddress>& known, const std::vector<PeerAddress>& heard) {
  std::vector<PeerAddress> addresses;
  for (const PeerAddress& address : known) {
    const bool replaced =
        std::any_of(heard.begin(), heard.end(), [&](const PeerAddress& other) { return other.nic == address.nic; });
    if (!replaced) addresses.push_back(address);
  }
  addresses.insert(addresses.end(), heard.begin(), heard.end());
  std::sort(addresses.begin(), addresses.end(), [](const PeerAddress& one, const PeerAddress& other) {
    return std::pair(one.nic, one.prefix.address.bytes) < std::pair(other.nic, other.prefix.address.bytes);
  });
  return addresses;
}

std::uint32_t checksum_of(std::span<const std::uint8_t> bytes) {
  std::uint32_t hash = 0x811c9dc5;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x01000193;
  return hash;
}

}  // namespace meshbed::net
