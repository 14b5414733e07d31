#pragma once
// What this machine has: every RDMA device, port and address, out of verbs, getifaddrs() and sysfs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/config.h"
#include "plugin/net/process/nic.h"
#include "plugin/verbs/device.h"

namespace meshbed::net {

using Devices = std::vector<std::unique_ptr<verbs::Device>>;

/// IPv4 and IPv6 addresses; no IPv6 link-local, and loopback only where it is asked for.
Result<std::vector<InterfaceAddress>> read_interfaces(bool with_loopback = false);
/// IPv6 link-local addresses alone.
Result<std::vector<InterfaceAddress>> read_link_local_interfaces();

/// All RoCE ports with at least one address that the configuration lets in, in the order of the devices; behind them
/// those that have a link-local address alone. Ports that are left out are logged with the reason. An error where every
/// port that is left lacks the GID at NCCL_IB_GID_INDEX.
Result<std::vector<Nic>> discover(const Devices& devices, const Config& config);
AddressPreference address_preference(const Config& config);
/// Link state, MTU and GIDs as they are now.
void refresh(Nic& nic, const verbs::Device& device);

/// Equal for all processes of one machine: a hash of its host name and addresses.
std::uint64_t node_identity(const std::vector<InterfaceAddress>& interfaces);

}  // namespace meshbed::net
