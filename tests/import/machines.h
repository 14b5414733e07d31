#pragma once
// Parts of what was read of machines.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "testbed/import/facts.h"

namespace meshbed::test {

using testbed::hosts::HostFacts;
using testbed::hosts::Machines;
using testbed::hosts::NicFacts;

/// The only node.
inline const HostFacts& only_host(const Machines& machines) {
  REQUIRE(machines.hosts.size() == 1);
  return machines.hosts.front();
}

/// The NIC with this device or interface.
inline const NicFacts& nic_of(const HostFacts& host, const std::string& name) {
  const auto found = std::find_if(host.nics.begin(), host.nics.end(), [&](const NicFacts& nic) {
    return nic.device.value == name || nic.netdev.value == name;
  });
  REQUIRE_MESSAGE(found != host.nics.end(), name);
  return *found;
}

}  // namespace meshbed::test
