// Address arithmetic of the generators: the n-th subnet, the n-th host.

#include <algorithm>

#include "models/topology_generate.h"

namespace meshbed::models {
namespace {

using Number = unsigned __int128;

unsigned bits_of(const IpPrefix& prefix) { return prefix.address.family == Family::kIpv4 ? 32 : 128; }

Number number_of(const IpAddress& address, unsigned bits) {
  Number number = 0;
  for (unsigned byte = 0; byte < bits / 8; ++byte) number = (number << 8U) | address.bytes[byte];
  return number;
}

Number host_mask(const IpPrefix& prefix) {
  const unsigned host_bits = bits_of(prefix) - prefix.length_bits;
  return host_bits == 128 ? ~Number{0} : (Number{1} << host_bits) - 1;
}

}  // namespace

Result<IpPrefix> host_in_subnet(const IpPrefix& subnet, std::uint64_t subnets, std::uint64_t host) {
  const unsigned bits = bits_of(subnet);
  const unsigned host_bits = bits - subnet.length_bits;
  const Number mask = host_mask(subnet);
  const Number network = number_of(subnet.address, bits) & ~mask;
  const Number last = bits == 32 ? Number{0xffffffffU} : ~Number{0};
  const Number room = last - network;  // addresses behind the network's own
  if (subnets == 0 && host > mask) {
    return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                 subnet_text(subnet) + " has no room for host " + std::to_string(host)};
  }
  if (host > mask || (subnets != 0 && (host_bits == 128 || subnets > (room >> host_bits)))) {
    return Error{ErrorCode::kInvalidArgument, Scope::kJob, "the addresses after " + subnet_text(subnet) + " run out"};
  }
  // For subnets == 0 the shift could be by 128, which C++ does not define.
  Number number = network + host + (subnets == 0 ? Number{0} : Number{subnets} << host_bits);
  IpPrefix result = subnet;
  for (unsigned byte = bits / 8; byte-- > 0; number >>= 8U) {
    result.address.bytes[byte] = static_cast<std::uint8_t>(number);
  }
  return result;
}

std::uint64_t host_capacity(const IpPrefix& subnet) {
  const unsigned host_bits = bits_of(subnet) - subnet.length_bits;
  const std::uint64_t addresses = std::uint64_t{1} << std::min(host_bits, 32U);
  return bits_of(subnet) == 32 && host_bits > 1 ? addresses - 2 : addresses;
}

bool is_network_or_broadcast(const IpPrefix& prefix) {
  if (prefix.address.family != Family::kIpv4 || prefix.length_bits >= 31) return false;
  const Number host = number_of(prefix.address, 32) & host_mask(prefix);
  return host == 0 || host == host_mask(prefix);
}

}  // namespace meshbed::models
