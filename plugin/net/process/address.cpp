#include "plugin/net/process/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace meshbed::net {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool equal_bits(const IpAddress& left, const IpAddress& right, unsigned bits) {
  for (unsigned at = 0; at < bits; at += 8) {
    const unsigned rest = std::min(8U, bits - at);
    const unsigned mask = (0xff00U >> rest) & 0xffU;
    if (((left.bytes[at / 8] ^ right.bytes[at / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

unsigned address_bits(Family family) { return family == Family::kIpv4 ? 32 : 128; }

bool contains(const IpPrefix& prefix, const IpAddress& address) {
  if (prefix.address.family != address.family || prefix.length_bits > address_bits(address.family)) return false;
  return equal_bits(prefix.address, address, prefix.length_bits);
}

std::optional<unsigned> shared_bits(const IpPrefix& left, const IpPrefix& right) {
  if (!contains(left, right.address) || !contains(right, left.address)) return std::nullopt;
  return std::min(left.length_bits, right.length_bits);
}

bool is_link_local(const IpAddress& address) {
  if (address.family == Family::kIpv4) return address.bytes[0] == 169 && address.bytes[1] == 254;
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0U) == 0x80;
}

std::optional<IpPrefix> parse_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string address(text.substr(0, slash));
  const bool ipv6 = address.find(':') != std::string::npos;
  IpPrefix prefix;
  prefix.address.family = ipv6 ? Family::kIpv6 : Family::kIpv4;
  if (::inet_pton(ipv6 ? AF_INET6 : AF_INET, address.c_str(), prefix.address.bytes.data()) != 1) return std::nullopt;
  const std::string_view length = text.substr(slash + 1);
  const auto [stop, error] = std::from_chars(length.data(), length.data() + length.size(), prefix.length_bits);
  const bool whole = error == std::errc() && stop == length.data() + length.size();
  if (!whole || prefix.length_bits > address_bits(prefix.address.family)) return std::nullopt;
  return prefix;
}

std::string to_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.family == Family::kIpv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

std::string to_text(const IpPrefix& prefix) {
  return to_text(prefix.address) + "/" + std::to_string(prefix.length_bits);
}

std::string subnet_text(const IpPrefix& prefix) {
  IpPrefix subnet = prefix;
  for (unsigned bit = prefix.length_bits; bit < address_bits(prefix.address.family); ++bit) {
    subnet.address.bytes[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
  }
  return to_text(subnet);
}

verbs::Gid gid_of(const IpAddress& address) {
  if (address.family == Family::kIpv6) return address.bytes;
  verbs::Gid gid{};
  std::copy(kMapped.begin(), kMapped.end(), gid.begin());
  std::copy_n(address.bytes.begin(), 4, gid.begin() + 12);
  return gid;
}

IpAddress address_of(const verbs::Gid& gid) {
  IpAddress address;
  if (std::equal(kMapped.begin(), kMapped.end(), gid.begin())) {
    address.family = Family::kIpv4;
    std::copy_n(gid.begin() + 12, 4, address.bytes.begin());
  } else {
    address.family = Family::kIpv6;
    address.bytes = gid;
  }
  return address;
}

socklen_t to_sockaddr(const SocketAddress& from, sockaddr_storage& storage) {
  std::memset(&storage, 0, sizeof storage);
  if (from.address.family == Family::kIpv4) {
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_port = htons(from.port);
    std::memcpy(&raw.sin_addr, from.address.bytes.data(), sizeof raw.sin_addr);
    std::memcpy(&storage, &raw, sizeof raw);
    return sizeof raw;
  }
  sockaddr_in6 raw{};
  raw.sin6_family = AF_INET6;
  raw.sin6_port = htons(from.port);
  raw.sin6_scope_id = from.scope;
  std::memcpy(&raw.sin6_addr, from.address.bytes.data(), sizeof raw.sin6_addr);
  std::memcpy(&storage, &raw, sizeof raw);
  return sizeof raw;
}

socklen_t to_mapped_sockaddr(const SocketAddress& from, sockaddr_storage& storage) {
  SocketAddress mapped{.address = {.family = Family::kIpv6, .bytes = gid_of(from.address)}, .port = from.port};
  return to_sockaddr(mapped, storage);
}

std::optional<SocketAddress> from_sockaddr(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  SocketAddress result;
  if (from->sa_family == AF_INET) {
    sockaddr_in raw;
    std::memcpy(&raw, from, sizeof raw);
    std::memcpy(result.address.bytes.data(), &raw.sin_addr, sizeof raw.sin_addr);
    result.port = ntohs(raw.sin_port);
    return result;
  }
  if (from->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 raw;
  std::memcpy(&raw, from, sizeof raw);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&raw.sin6_addr);
  result.port = ntohs(raw.sin6_port);
  result.scope = raw.sin6_scope_id;
  if (std::equal(kMapped.begin(), kMapped.end(), bytes)) {
    std::copy_n(bytes + kMapped.size(), 4, result.address.bytes.begin());
  } else {
    result.address.family = Family::kIpv6;
    std::copy_n(bytes, 16, result.address.bytes.begin());
  }
  return result;
}

}  // namespace meshbed::net
