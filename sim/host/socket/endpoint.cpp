#include "sim/host/socket/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace meshbed::sim {

using models::Family;
using models::IpAddress;

std::optional<Endpoint> read_sockaddr(int family, const sockaddr* address, socklen_t length) {
  if (address == nullptr || address->sa_family != family) return std::nullopt;
  Endpoint endpoint;
  if (family == AF_INET) {
    sockaddr_in in{};
    if (length < sizeof(in)) return std::nullopt;
    std::memcpy(&in, address, sizeof(in));
    std::memcpy(endpoint.address.bytes.data(), &in.sin_addr, sizeof(in.sin_addr));
    endpoint.port = ntohs(in.sin_port);
    return endpoint;
  }
  sockaddr_in6 in6{};
  if (length < sizeof(in6)) return std::nullopt;
  std::memcpy(&in6, address, sizeof(in6));
  endpoint.port = ntohs(in6.sin6_port);
  endpoint.scope = in6.sin6_scope_id;
  const std::uint8_t* bytes = in6.sin6_addr.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
    std::copy_n(bytes + 12, 4, endpoint.address.bytes.begin());
  } else {
    endpoint.address.family = Family::kIpv6;
    std::copy_n(bytes, 16, endpoint.address.bytes.begin());
  }
  return endpoint;
}

void write_sockaddr(int family, const Endpoint& endpoint, sockaddr* address, socklen_t* length) {
  if (address == nullptr || length == nullptr) return;
  const auto& bytes = endpoint.address.bytes;
  sockaddr_in in{};
  sockaddr_in6 in6{};
  const void* from = nullptr;
  socklen_t size = 0;
  if (family == AF_INET) {
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    std::memcpy(&in.sin_addr, bytes.data(), sizeof(in.sin_addr));
    from = &in;
    size = sizeof(in);
  } else {
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(endpoint.port);
    in6.sin6_scope_id = endpoint.scope;
    if (endpoint.address.family == Family::kIpv6) {
      std::copy_n(bytes.begin(), 16, in6.sin6_addr.s6_addr);
    } else {
      in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
      std::copy_n(bytes.begin(), 4, in6.sin6_addr.s6_addr + 12);
    }
    from = &in6;
    size = sizeof(in6);
  }
  std::memcpy(address, from, std::min(*length, size));
  *length = size;
}

IpAddress any_address(int family) { return {.family = family == AF_INET ? Family::kIpv4 : Family::kIpv6, .bytes = {}}; }

bool is_any(const IpAddress& address) { return address.bytes == std::array<std::uint8_t, 16>{}; }

bool is_loopback(const IpAddress& address) {
  if (address.family == Family::kIpv4) return address.bytes[0] == 127;
  IpAddress one = any_address(AF_INET6);
  one.bytes[15] = 1;
  return address == one;
}

bool is_ipv6_link_local(const IpAddress& address) { return address.family == Family::kIpv6 && is_link_local(address); }

std::string to_string(const Endpoint& endpoint) {
  const std::string address = to_text(endpoint.address);
  const bool bracket = endpoint.address.family == Family::kIpv6;
  return (bracket ? "[" + address + "]" : address) + ":" + std::to_string(endpoint.port);
}

}  // namespace meshbed::sim
