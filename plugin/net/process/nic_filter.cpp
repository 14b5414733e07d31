#include "plugin/net/process/nic_filter.h"

#include <algorithm>

#include "plugin/net/process/config.h"

namespace meshbed::net {
namespace {

std::string addresses_text(const std::vector<Nic>& nics) {
  std::string text;
  for (const Nic& nic : nics) {
    for (const IpPrefix& address : nic.addresses) {
      text += (text.empty() ? "" : ", ") + to_text(address) + " on " + nic.device_name;
    }
  }
  return text;
}

}  // namespace

std::string hca_problem(const std::string& list, const std::vector<PortName>& ports) {
  const bool any = std::any_of(ports.begin(), ports.end(),
                               [&](const PortName& one) { return hca_allowed(list, one.device, one.port); });
  if (list.empty() || ports.empty() || any) return "";
  std::string names;
  for (const PortName& one : ports) {
    names += (names.empty() ? "" : ", ") + one.device + ":" + std::to_string(one.port);
  }
  return "NCCL_IB_HCA=" + list + " allows none of the existing ports: " + names;
}

std::vector<std::string> address_problems(const std::string& family, const std::string& range,
                                          const AddressPreference& preference, const std::vector<Nic>& nics) {
  const std::string there = addresses_text(nics);
  std::vector<std::string> problems;
  const auto look = [&](const std::string& setting, const auto& fits) {
    const bool any = std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) {
      return std::any_of(nic.addresses.begin(), nic.addresses.end(), fits);
    });
    if (!any && !there.empty())
      problems.push_back(setting + " fits no address, and changes nothing: there are " + there);
  };
  if (preference.family) {
    look("NCCL_IB_ADDR_FAMILY=" + family,
         [&](const IpPrefix& address) { return address.address.family == *preference.family; });
  }
  if (preference.range) {
    look("NCCL_IB_ADDR_RANGE=" + range,
         [&](const IpPrefix& address) { return contains(*preference.range, address.address); });
  }
  return problems;
}

}  // namespace meshbed::net
