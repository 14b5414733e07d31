#pragma once
// The RDMA devices, ports and addresses of this machine, from verbs, getifaddrs() and sysfs.

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

/// IPv4 and IPv6 addresses; no IPv6 link-local ones, and loopback only on request.
Result<std::vector<InterfaceAddress>> read_interfaces(bool with_loopback = false);
/// The IPv6 link-local addresses.
Result<std::vector<InterfaceAddress>> read_link_local_interfaces();

/// All RoCE ports with at least one address that the configuration allows, in the order of the devices; after them
/// those that have only a link-local address. Ports that are left out are logged with the reason. An error if all
/// remaining ports lack the GID at NCCL_IB_GID_INDEX.
Result<std::vector<Nic>> discover(const Devices& devices, const Config& config);
AddressPreference address_preference(const Config& config);
/// Reads the present link state, MTU and GIDs.
void refresh(Nic& nic, const verbs::Device& device);

/// Equal for all processes of one machine: a hash of its host name and addresses.
std::uint64_t node_identity(const std::vector<InterfaceAddress>& interfaces);

}  // namespace meshbed::net
