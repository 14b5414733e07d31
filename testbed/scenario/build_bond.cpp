// Bonds: NICs that are functions of one bond, its RDMA device and addresses, and the valid ends of its cables.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "models/lan/bond.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/units.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {
namespace {

using models::Bond;
using models::BondMode;
using models::PortRef;

const std::map<std::string, BondMode> kModes = {
    {"active-backup", BondMode::kActiveBackup}, {"balance-xor", BondMode::kBalanceXor}, {"802.3ad", BondMode::k8023ad}};

/// What the [[node.nic]] of that device says; nullptr: there is none.
const NicSpec* said_of(const NodeSpec& node, const std::string& device) {
  const auto found =
      std::find_if(node.nics.begin(), node.nics.end(), [&](const NicSpec& nic) { return nic.device == device; });
  return found == node.nics.end() ? nullptr : &*found;
}

/// By their names, or by the PCI functions that the file gives them.
bool on_one_card(const NodeSpec& owner, const std::string& one, const std::string& other) {
  if (models::differ_in_function(one, other)) return true;
  const NicSpec* const left = said_of(owner, one);
  const NicSpec* const right = said_of(owner, other);
  const bool both = left != nullptr && right != nullptr && left->has("pci_path") && right->has("pci_path");
  return both && models::differ_in_function(left->pci_path, right->pci_path);
}

/// As the driver names them, mlx5_bond_%d: the first number that is free.
std::string free_device(const models::Node& node) {
  for (int number = 0;; ++number) {
    std::string name = fmt::format("mlx5_bond_{}", number);
    if (find_nic(node, name) < 0) return name;
  }
}

using Refuse = std::function<void(const Place&, const std::string&)>;

/// What is the bond's own, or the first function's for the bond, and what no bond has here.
void check_said(const NicSpec& said, const BondSpec& bond, const Refuse& refuse) {
  const std::string name = said.device.substr(0, 64);
  if (!said.addresses.empty()) {
    refuse(said.at("addresses"), fmt::format("addresses: {} is a function of {}, which has them in its place; move "
                                             "them to the [[node.bond]]",
                                             name, bond.name));
  }
  if (said.vlan != 0) {
    refuse(said.at("vlan"),
           fmt::format("vlan: {} is a function of {}, and a bond has no VLAN interface here; leave the "
                       "VLAN out, and make it a [[switch]] of its own",
                       name, bond.name));
  }
  if (said.device == bond.functions.front().value) return;
  for (const char* const key : {"gateway", "gateway_table"}) {
    if (!said.has(key)) continue;
    refuse(said.at(key), fmt::format("{}: {} is a function of {}, whose routes the first one, {}, says; move it there",
                                     key, name, bond.name, bond.functions.front().value.substr(0, 64)));
  }
  if (said.has("gids")) {
    refuse(said.at("gids"), fmt::format("gids: {} is a function of {}, whose GIDs are at the first one, {}; move them "
                                        "there",
                                        name, bond.name, bond.functions.front().value.substr(0, 64)));
  }
}

/// The NIC that is a function of the card of all these, and none of them; nullptr: there is none.
const models::Nic* left_out_of(const models::Node& node, const NodeSpec& owner, const Bond& bond) {
  const models::Nic& first = node.nic(bond.functions.front());
  for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
    const bool is_listed =
        std::find(bond.functions.begin(), bond.functions.end(), static_cast<int>(nic)) != bond.functions.end();
    const models::Nic& other = node.nics[nic];
    if (!is_listed && on_one_card(owner, first.device, models::function_name(other))) return &other;
  }
  return nullptr;
}

/// What a port hangs on: its cable's other end, or a switch.
struct Far {
  PortRef peer;
  int switch_index = -1;
};

std::map<PortRef, Far> far_ends(const models::Cluster& cluster) {
  std::map<PortRef, Far> ends;
  for (const models::Cable& cable : cluster.cables) {
    ends[cable.a].peer = cable.b;
    ends[cable.b].peer = cable.a;
  }
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    for (const PortRef port : cluster.switches[index].ports) ends[port].switch_index = static_cast<int>(index);
  }
  return ends;
}

std::size_t place_in(const Bond& bond, int nic) {
  return static_cast<std::size_t>(std::find(bond.functions.begin(), bond.functions.end(), nic) -
                                  bond.functions.begin());
}

std::string port_text(const models::Cluster& cluster, PortRef port) {
  const models::Node& node = cluster.at(port.node);
  return node.name + "/" + models::function_name(node.nic(port.nic));
}

/// What is wrong with the cables of `bond`; empty: nothing.
std::string cabling_problem(const models::Cluster& cluster, int node, const Bond& bond,
                            const std::map<PortRef, Far>& ends) {
  const std::string own = fmt::format("{} of {}", bond.name, cluster.at(node).name);
  const Far* first = nullptr;
  for (std::size_t place = 0; place < bond.functions.size(); ++place) {
    const PortRef port{node, bond.functions[place]};
    const auto found = ends.find(port);
    if (found == ends.end()) continue;
    const Far& far = found->second;
    const bool at_switch = far.switch_index >= 0;
    const Bond* const theirs = at_switch ? nullptr : models::bond_of(cluster, far.peer);
    if (!at_switch && theirs == nullptr) {
      return fmt::format(
          "functions: {} is a function of {}, and the other end of its cable, {}, is in no bond; put it "
          "into one, or take a switch",
          port_text(cluster, port), own, port_text(cluster, far.peer));
    }
    const bool as_first = first == nullptr || (first->switch_index == far.switch_index &&
                                               (at_switch || models::bond_of(cluster, first->peer) == theirs));
    if (!as_first) {
      return fmt::format(
          "functions: those of {} lead to different places; they lead to one switch, or to the functions "
          "of one other bond",
          own);
    }
    first = &far;
    if (at_switch) continue;
    const std::string other = fmt::format("{} of {}", theirs->name, cluster.at(far.peer.node).name);
    if (theirs->mode != bond.mode) {
      return fmt::format("mode: {} is {}, and {} at the other end {}; give both the same", own, to_string(bond.mode),
                         other, to_string(theirs->mode));
    }
    if (place_in(*theirs, far.peer.nic) != place) {
      return fmt::format(
          "functions: {} is number {} of {} and is cabled to {}, number {} of {}; list one bond's "
          "functions in the order of the other's",
          port_text(cluster, port), place + 1, own, port_text(cluster, far.peer), place_in(*theirs, far.peer.nic) + 1,
          other);
    }
  }
  return "";
}

/// The port has a link at the start: it is plugged in, and up at both ends.
bool has_link(const models::Cluster& cluster, PortRef port, const std::map<PortRef, Far>& ends) {
  const auto is_up = [&](PortRef end) { return cluster.nic_of(end).link_up; };
  const auto found = ends.find(port);
  if (found == ends.end() || !is_up(port)) return false;
  return found->second.switch_index >= 0 || is_up(found->second.peer);
}

/// An active-backup bond begins with its first function, whose link would make it move before anything ran.
std::string active_problem(const models::Cluster& cluster, int node, const Bond& bond,
                           const std::map<PortRef, Far>& ends) {
  const auto is_usable = [&](int nic) { return has_link(cluster, {node, nic}, ends); };
  if (bond.mode != BondMode::kActiveBackup || is_usable(bond.functions.front())) return "";
  const auto other = std::find_if(bond.functions.begin(), bond.functions.end(), is_usable);
  if (other == bond.functions.end()) return "";
  return fmt::format(
      "functions: {} is the active one of {} and has no link from the start (no cable, or its other end is down); list "
      "{} first",
      port_text(cluster, {node, bond.functions.front()}), bond.name, port_text(cluster, {node, *other}));
}

}  // namespace

std::optional<Bond> Builder::bond_of(int node, const NodeSpec& owner, const BondSpec& spec) {
  const models::Node& own = node_at(node);
  bool is_right = true;
  const auto refuse = [&](const Place& place, const std::string& text) {
    diagnostics_.add(place, text);
    is_right = false;
  };
  if (spec.name.empty()) {
    if (!spec.has("name")) diagnostics_.add(spec.place, "[[node.bond]] needs name");
    return std::nullopt;
  }
  if (spec.name.size() > kNetdevNameMax) {
    refuse(spec.at("name"), fmt::format("name: '{}' is longer than {} characters, the most that Linux allows",
                                        spec.name.substr(0, 64), kNetdevNameMax));
  }
  if (!bond_places_.emplace(std::pair{node, spec.name}, spec.at("functions")).second) {
    refuse(spec.at("name"), fmt::format("name: two [[node.bond]] of {} are called '{}'", own.name, spec.name));
  }
  Bond bond{.name = spec.name};
  const auto mode = kModes.find(spec.mode);
  if (mode == kModes.end()) {
    refuse(spec.at("mode"), fmt::format("mode: RoCE does not run over a bond of mode '{}'; take active-backup, "
                                        "balance-xor or 802.3ad",
                                        spec.mode.substr(0, 64)));
  } else {
    bond.mode = mode->second;
  }
  bond.hashes_flows = spec.hash_policy == "layer3+4";
  if (spec.has("xmit_hash_policy") && is_right && bond.mode == BondMode::kActiveBackup) {
    refuse(spec.at("xmit_hash_policy"), "xmit_hash_policy: active-backup hashes nothing; leave it out");
  }
  if (spec.functions.size() < 2) {
    refuse(spec.at("functions"),
           "functions: a bond has two or more, as in [\"rocep1s0f0\", \"rocep1s0f1\"]; a single NIC needs none");
  }
  for (const auto& listed : spec.functions) {
    const std::string name = listed.value.substr(0, 64);
    const int nic = find_nic(own, listed.value);
    if (nic < 0) {
      refuse(listed.place, fmt::format("functions: '{}' is not a NIC of {}; it has: {}", name, own.name,
                                       list_names(device_names(own))));
      continue;
    }
    const models::Nic& function = own.nics[static_cast<std::size_t>(nic)];
    if (function.bond >= 0) {
      refuse(listed.place, fmt::format("functions: '{}' is in {} already; a function is in one bond", name,
                                       own.bonds[static_cast<std::size_t>(function.bond)].name));
    } else if (place_in(bond, nic) < bond.functions.size()) {
      refuse(listed.place, fmt::format("functions: '{}' is listed twice", name));
    } else {
      bond.functions.push_back(nic);
    }
    const NicSpec* const said = said_of(owner, listed.value);
    if (said != nullptr) check_said(*said, spec, refuse);
  }
  if (!is_right) return std::nullopt;
  // All are NICs of the node, in no other bond.
  const models::Nic& first = own.nics[static_cast<std::size_t>(bond.functions.front())];
  bond.lag = true;
  bool any_up = false;
  for (const int nic : bond.functions) {
    const models::Nic& other = own.nics[static_cast<std::size_t>(nic)];
    any_up = any_up || other.link_up;
    bond.lag = bond.lag && (&other == &first || on_one_card(owner, first.device, other.device));
    const NicSpec* const said = said_of(owner, other.device);
    if (said != nullptr && said->has("mtu") && other.mtu_bytes != first.mtu_bytes) {
      refuse(said->at("mtu"), fmt::format("mtu: {} has {} and {} {}; a bond gives its functions one MTU, the first "
                                          "one's",
                                          first.device, first.mtu_bytes, other.device, other.mtu_bytes));
    }
    if (other.rate_bps == first.rate_bps) continue;
    refuse(spec.at("functions"),
           fmt::format("functions: {} has {} and {} {}; those of a bond have one rate", first.device,
                       rate_text(first.rate_bps), other.device, rate_text(other.rate_bps)));
  }
  if (const models::Nic* const other = bond.lag ? left_out_of(own, owner, bond) : nullptr) {
    refuse(spec.at("functions"),
           fmt::format("functions: {} is a function of the same card, and the driver makes a RoCE LAG of all of a "
                       "card's functions or of none; list it as well",
                       models::function_name(*other)));
  }
  if (bond.mode == BondMode::kActiveBackup && !first.link_up && any_up) {
    refuse(spec.at("functions"),
           fmt::format("functions: {} is the active one and down from the start; list one that is "
                       "up first",
                       first.device));
  }
  if (!bond.lag && bond.mode != BondMode::kActiveBackup) {
    refuse(spec.at("mode"),
           fmt::format("mode: {} over several cards sends a queue pair's answers to the wrong one: RoCE "
                       "LAG has functions of one card alone, as rocep1s0f0 and rocep1s0f1; take "
                       "active-backup",
                       spec.mode));
  }
  if (!bond.lag && spec.has("device")) {
    refuse(spec.at("device"), "device: functions of several cards keep their own RDMA devices; leave it out");
  }
  if (spec.has("device") && find_nic(own, spec.device) >= 0) {
    refuse(spec.at("device"), fmt::format("device: '{}' is a NIC of {} already", spec.device.substr(0, 64), own.name));
  }
  return is_right ? std::optional(bond) : std::nullopt;
}

void Builder::join_functions(int node, Bond bond, const BondSpec& spec) {
  models::Node& own = node_at(node);
  const auto front = static_cast<std::size_t>(bond.functions.front());
  models::Nic& first = own.nics[front];
  const std::vector<models::IpPrefix> addresses =
      spec.has("addresses") ? host_addresses(spec.addresses) : first.addresses;
  for (const int nic : bond.functions) {
    models::Nic& function = own.nics[static_cast<std::size_t>(nic)];
    function.addresses.clear();
    function.bond = static_cast<int>(own.bonds.size());
    function.mtu_bytes = first.mtu_bytes;  // bonding sets them all
    if (&function != &first) function.gids.clear();
  }
  first.addresses = addresses;
  first.function_netdev = first.netdev;
  first.netdev = bond.name;
  if (spec.has("addresses")) built_.nic_places[static_cast<std::size_t>(node)][front] = spec.at("addresses");
  if (bond.lag) {
    first.function = first.device;
    first.device = spec.has("device") ? spec.device : free_device(own);
  }
  own.bonds.push_back(std::move(bond));
}

void Builder::check_bond_cables() {
  const std::map<PortRef, Far> ends = far_ends(built_.cluster);
  for (std::size_t node = 0; node < built_.cluster.nodes.size(); ++node) {
    for (const Bond& bond : built_.cluster.nodes[node].bonds) {
      const auto index = static_cast<int>(node);
      std::string problem = cabling_problem(built_.cluster, index, bond, ends);
      if (problem.empty()) problem = active_problem(built_.cluster, index, bond, ends);
      if (!problem.empty()) diagnostics_.add(bond_places_.at({index, bond.name}), problem);
      check_bond_subnets({index, bond.functions.front()}, bond);
    }
  }
}

/// Only now is it known which addresses are on the bond's cables or its switch. Of two cables with a subnet each the
/// bond is in one.
void Builder::check_bond_subnets(models::PortRef device, const Bond& bond) {
  for (const models::IpPrefix& address : nic_at(device).addresses) {
    const MediumSubnet* said = nullptr;
    bool is_inside = false;
    for (const MediumSubnet& medium : medium_subnets_) {
      const std::vector<PortRef> ports = ports_of(medium);
      const bool is_ours = std::any_of(ports.begin(), ports.end(), [&](PortRef port) {
        return port.node == device.node && place_in(bond, port.nic) < bond.functions.size();
      });
      if (!is_ours) continue;
      said = &medium;
      is_inside = is_inside || contains(medium.subnet, address.address);
    }
    if (said == nullptr || is_inside) continue;
    diagnostics_.add(said->place,
                     fmt::format("subnet: {} of {}'s {} is outside {}'s prefix {}", to_text(address),
                                 node_at(device.node).name, bond.name, said->owner, subnet_text(said->subnet)));
  }
}

std::vector<PortRef> Builder::ports_of(const MediumSubnet& medium) const {
  const models::Cluster& cluster = built_.cluster;
  if (medium.is_switch) return cluster.switches[medium.index].ports;
  return {cluster.cables[medium.index].a, cluster.cables[medium.index].b};
}

void Builder::add_bonds() {
  for (const NodeSpec& spec : spec_.nodes) {
    const auto found = node_index_.find(spec.name);
    if (found == node_index_.end() || spec.bonds.empty()) continue;
    const int node = found->second;
    for (const BondSpec& each : spec.bonds) {
      if (auto bond = bond_of(node, spec, each)) join_functions(node, std::move(*bond), each);
    }
    // Indices of RDMA devices are those of NICs: what has no device comes behind.
    const models::Node& own = node_at(node);
    std::vector<int> order(own.nics.size());
    for (std::size_t nic = 0; nic < order.size(); ++nic) order[nic] = static_cast<int>(nic);
    std::stable_partition(order.begin(), order.end(), [&](int nic) { return !models::is_lag_function(own, nic); });
    permute_nics(node, order);
  }
  if (diagnostics_.empty()) check_bond_cables();
}

}  // namespace meshbed::testbed
