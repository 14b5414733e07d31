#include "models/lan/bond.h"

#include <cstddef>

#include "models/pcie.h"

namespace meshbed::models {
namespace {

const Node& node_at(const Cluster& cluster, PortRef port) { return cluster.at(port.node); }

const Bond* bond_of(const Node& node, int nic) {
  const int bond = node.nic(nic).bond;
  return bond < 0 ? nullptr : &node.bonds[static_cast<std::size_t>(bond)];
}

/// Without its last digits; empty where it ends in none, or in nothing else.
std::string_view without_number(std::string_view text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  return last == std::string_view::npos || last + 1 == text.size() ? "" : text.substr(0, last + 1);
}

}  // namespace

std::string_view to_string(BondMode mode) {
  switch (mode) {
    case BondMode::kActiveBackup:
      return "active-backup";
    case BondMode::kBalanceXor:
      return "balance-xor";
    case BondMode::k8023ad:
      break;
  }
  return "802.3ad";
}

const Bond* bond_of(const Cluster& cluster, PortRef port) { return bond_of(node_at(cluster, port), port.nic); }

PortRef device_of(const Cluster& cluster, PortRef port) {
  const Bond* const bond = bond_of(cluster, port);
  return bond != nullptr && bond->lag ? PortRef{port.node, bond->functions.front()} : port;
}

std::vector<PortRef> functions_of(const Cluster& cluster, PortRef device) {
  const Bond* const bond = bond_of(cluster, device);
  if (bond == nullptr || !bond->lag || bond->functions.front() != device.nic) return {device};
  std::vector<PortRef> ports;
  for (const int nic : bond->functions) ports.push_back({device.node, nic});
  return ports;
}

bool is_lag_function(const Node& node, int nic) {
  const Bond* const bond = bond_of(node, nic);
  return bond != nullptr && bond->lag && bond->functions.front() != nic;
}

bool is_standby(const Cluster& cluster, PortRef port) {
  const Bond* const bond = bond_of(cluster, port);
  return bond != nullptr && bond->mode == BondMode::kActiveBackup && bond->functions.front() != port.nic;
}

std::size_t rdma_devices(const Node& node) {
  std::size_t devices = node.nics.size();
  for (const Bond& bond : node.bonds) {
    if (bond.lag) devices -= bond.functions.size() - 1;
  }
  return devices;
}

const std::string& function_name(const Nic& nic) { return nic.function.empty() ? nic.device : nic.function; }

const std::string& function_netdev(const Nic& nic) {
  return nic.function_netdev.empty() ? nic.netdev : nic.function_netdev;
}

bool differ_in_function(std::string_view one, std::string_view other) {
  const std::string_view place = without_number(one);
  return !place.empty() && (place.back() == 'f' || place.back() == '.') && place == without_number(other) &&
         one != other;
}

std::uint64_t function_rate_bps(const Node& node, const Bond& bond) {
  return node_rate_bps(node, {bond.functions.front()});
}

std::uint64_t bond_rate_bps(const Node& node, const Bond& bond) {
  const bool all_send = bond.lag && bond.mode != BondMode::kActiveBackup;
  return all_send ? node_rate_bps(node, bond.functions) : function_rate_bps(node, bond);
}

}  // namespace meshbed::models
