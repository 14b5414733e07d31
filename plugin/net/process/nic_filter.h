#pragma once
// Warnings for settings that choose among NICs and match none. Pure functions, for the plugin and for the commands that
// show what it would do.

#include <string>
#include <vector>

#include "plugin/net/process/nic.h"

namespace meshbed::net {

struct PortName {
  std::string device;
  int port = 1;
};

/// Empty if `list` (NCCL_IB_HCA) is empty or allows one of the ports, or if there are no ports.
std::string hca_problem(const std::string& list, const std::vector<PortName>& ports);

/// `family` and `range`: the texts of NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE; `preference`: their meaning. One
/// warning for each that matches no address of the NICs and so has no effect.
std::vector<std::string> address_problems(const std::string& family, const std::string& range,
                                          const AddressPreference& preference, const std::vector<Nic>& nics);

}  // namespace meshbed::net
