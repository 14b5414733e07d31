#include "plugin/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace meshbed {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

std::string to_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.family == Family::kIpv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
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
