#pragma once
// What this machine has: every RDMA device, port and address, out of verbs, getifaddrs() and sysfs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/config.h"
#include "plugin/net/nic.h"
#include "plugin/verbs/device.h"

namespace meshbed::net {

using Devices = std::vector<std::unique_ptr<verbs::Device>>;

/// An address of a network interface, as getifaddrs() tells it.
struct InterfaceAddress {
  std::string netdev;
  IpPrefix prefix;
};

/// IPv4 and IPv6 addresses; no loopback, no IPv6 link-local.
Result<std::vector<InterfaceAddress>> read_interfaces();

/// The addresses that belong to a port: those of its network interface and those that stand in its GID table (VLANs).
/// IPv4 link-local ones only where there is no other: every cable would have the same subnet.
std::vector<IpPrefix> addresses_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces);

/// All RoCE ports with at least one address that the configuration lets in, in the order of the devices. Ports that are
/// left out are logged with the reason.
Result<std::vector<Nic>> discover(const Devices& devices, const Config& config);
/// Link state, MTU and GIDs as they are now.
void refresh(Nic& nic, const verbs::Device& device);

/// Equal for all processes of one machine: a hash of its host name and addresses.
std::uint64_t node_identity(const std::vector<InterfaceAddress>& interfaces);

}  // namespace meshbed::net
