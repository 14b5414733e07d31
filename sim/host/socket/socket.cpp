#include "sim/host/socket/socket.h"

#include <fcntl.h>

namespace meshbed::sim {

Socket::Socket(Process& owner, int family) : File(owner), family_(family) {
  status_flags = O_RDWR;
  local.address = remote.address = any_address(family);
}

bool Socket::takes(const models::IpAddress& address) const {
  if (!is_any(local.address)) return local.address == address;
  if (family_ == AF_INET) return address.family == models::Family::kIpv4;
  return !v6_only || address.family == models::Family::kIpv6;
}

bool Socket::conflicts(const Socket& other) const {
  if (reuse_port && other.reuse_port) return false;
  if (reuse_address && other.reuse_address && !listening() && !other.listening()) return false;
  return takes(other.local.address) || other.takes(local.address);
}

}  // namespace meshbed::sim
