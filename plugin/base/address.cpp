#include "plugin/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace meshbed {
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

std::string to_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.family == Family::kIpv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  // inet_pton reads up to a NUL; text behind one would be dropped in silence.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string word(text);
  IpAddress address;
  if (::inet_pton(AF_INET, word.c_str(), address.bytes.data()) == 1) return address;
  address = {.family = Family::kIpv6, .bytes = {}};
  if (::inet_pton(AF_INET6, word.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

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
  const auto address = parse_ip_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  IpPrefix prefix{.address = *address};
  const std::string_view length = text.substr(slash + 1);
  const auto [stop, error] = std::from_chars(length.data(), length.data() + length.size(), prefix.length_bits);
  const bool whole = error == std::errc() && stop == length.data() + length.size();
  if (!whole || prefix.length_bits > address_bits(prefix.address.family)) return std::nullopt;
  return prefix;
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

std::string to_text(const SocketAddress& address) {
  const std::string host = to_text(address.address);
  const std::string port = std::to_string(address.port);
  return address.address.family == Family::kIpv6 ? "[" + host + "]:" + port : host + ":" + port;
}

std::array<std::uint8_t, 16> mapped_bytes(const IpAddress& address) {
  if (address.family == Family::kIpv6) return address.bytes;
  std::array<std::uint8_t, 16> bytes{};
  std::copy(kMapped.begin(), kMapped.end(), bytes.begin());
  std::copy_n(address.bytes.begin(), 4, bytes.begin() + kMapped.size());
  return bytes;
}

IpAddress from_mapped_bytes(const std::array<std::uint8_t, 16>& bytes) {
  IpAddress address;
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    std::copy_n(bytes.begin() + kMapped.size(), 4, address.bytes.begin());
  } else {
    address.family = Family::kIpv6;
    address.bytes = bytes;
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
  return to_sockaddr({.address = {.family = Family::kIpv6, .bytes = mapped_bytes(from.address)}, .port = from.port},
                     storage);
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
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &raw.sin6_addr, bytes.size());
  result.address = from_mapped_bytes(bytes);
  result.port = ntohs(raw.sin6_port);
  result.scope = raw.sin6_scope_id;
  return result;
}

}  // namespace meshbed
