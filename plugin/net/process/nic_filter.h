#pragma once
// Settings that choose among NICs and fit none: what to say of them. Pure functions, for the plugin and for the
// commands that show what it would do.

#include <string>
#include <vector>

#include "plugin/net/process/nic.h"

namespace meshbed::net {

struct PortName {
  std::string device;
  int port = 1;
};

/// Empty: `list` (NCCL_IB_HCA) is empty, lets in one of the ports, or there are none.
std::string hca_problem(const std::string& list, const std::vector<PortName>& ports);

/// `family` and `range`: NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE as they were given; `preference` is what they mean.
/// One text for each that no address of the NICs fits, which then changes nothing.
std::vector<std::string> address_problems(const std::string& family, const std::string& range,
                                          const AddressPreference& preference, const std::vector<Nic>& nics);

}  // namespace meshbed::net
