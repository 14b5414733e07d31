// VLANs, bridges and bonds. Nomenclature: upper - an interface above others; lower, member - one below it.
//
// What each upper becomes: a VLAN interface's addresses are those of the NIC below it, with the VLAN. A bridge's are
// those of its port, whose GID table has them (is_eth_port_of_netdev_filter, drivers/infiniband/core/roce_gid_mgmt.c).
// A bond becomes a bond, if the scenario's reader takes it (testbed/scenario/build_bond.cpp); else its first member has
// its addresses, and a finding says why.

#include "testbed/import/infer/fold_uppers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/lan/bond.h"
#include "testbed/base/units.h"

namespace meshbed::testbed::hosts {
namespace {

NicFacts* lower_named(HostFacts& host, const std::string& netdev) {
  for (NicFacts& nic : host.nics) {
    if (nic.netdev.known() && nic.netdev.value == netdev) return &nic;
  }
  return nullptr;
}

/// It leads to another network than the mesh.
bool is_management(const NicFacts& nic) {
  const bool is_dynamic = std::any_of(nic.addresses.begin(), nic.addresses.end(),
                                      [](const AddressFact& address) { return address.is_dynamic; });
  return is_dynamic || !nic.default_via.empty() || !nic.dhcp.empty();
}

template <typename T>
void move_facts(std::vector<T>& into, const std::vector<T>& from) {
  into.insert(into.end(), from.begin(), from.end());
}

void give_routes(NicFacts& lower, const NicFacts& upper) {
  if (lower.default_via.empty()) lower.default_via = upper.default_via;
  if (lower.dhcp.empty()) lower.dhcp = upper.dhcp;
}

/// Addresses and what goes with them.
void give_addresses(NicFacts& lower, const NicFacts& upper) {
  for (const AddressFact& address : upper.addresses) {
    const bool is_known = std::any_of(lower.addresses.begin(), lower.addresses.end(),
                                      [&](const AddressFact& each) { return each.prefix == address.prefix; });
    if (!is_known) lower.addresses.push_back(address);
  }
  move_facts(lower.neighbours, upper.neighbours);
  give_routes(lower, upper);
}

class Folder {
 public:
  Folder(HostFacts& host, AssumedList& assumed) : host_(host), assumed_(assumed) {}

  std::vector<PendingFinding> fold() {
    fold_vlans(true);  // over bridges
    for (const std::string& bridge : of_kind("bridge")) fold_bridge(*lower_named(host_, bridge));
    fold_vlans(false);
    for (const std::string& bond : of_kind("bond")) fold_bond(bond);
    return std::move(pending_);
  }

 private:
  std::vector<std::string> of_kind(const std::string& kind) const {
    std::vector<std::string> names;
    for (const NicFacts& nic : host_.nics) {
      if (nic.kind == kind && nic.netdev.known()) names.push_back(nic.netdev.value);
    }
    return names;
  }

  void find(const std::string& netdev, const std::string& upper, const std::string& code, const std::string& cause,
            const std::string& fix) {
    pending_.push_back({netdev, {Severity::kWarning, code, fmt::format("{}/{}", host_.name.value, upper), cause, fix}});
  }

  // -- VLANs ----------------------------------------------------------------------------------------------------------

  void fold_vlans(bool over_bridges) {
    std::map<std::string, std::vector<NicFacts>> over;
    for (const NicFacts& nic : host_.nics) {
      const bool has_facts = !nic.addresses.empty() || is_management(nic);
      if (nic.kind != "vlan" || nic.parent.empty() || !nic.vlan.known() || !has_facts) continue;
      const NicFacts* const below = nic_with(host_, nic.parent);
      if ((below != nullptr && below->kind == "bridge") == over_bridges) over[nic.parent].push_back(nic);
    }
    for (auto& [parent, vlans] : over) {
      NicFacts& below = host_.by_netdev(parent, vlans.front().netdev.source, Origin::kConfigured);
      // Beside a VLAN of the mesh, one with the default route is another network's.
      const bool any_mesh = std::any_of(vlans.begin(), vlans.end(), [](const NicFacts& vlan) {
        return !is_management(vlan) && !vlan.addresses.empty();
      });
      for (const NicFacts& vlan : vlans) {
        if (any_mesh && is_management(vlan)) continue;
        fold_vlan(below, vlan);
      }
    }
  }

  void fold_vlan(NicFacts& below, const NicFacts& vlan) {
    if (below.kind == "bond" || below.kind == "bridge") {  // which have no VLANs in a scenario
      vlans_over_[below.netdev.value].push_back(vlan);
      give_addresses(below, vlan);
      return;
    }
    const NicFacts* const master = below.master.empty() ? nullptr : nic_with(host_, below.master);
    if (master != nullptr && master->kind == "bond") {
      find(below.netdev.value, vlan.netdev.value, "vlan",
           fmt::format("{} below it is a member of {}, which has no VLANs of members here: the VLAN is left out",
                       below.netdev.value, below.master),
           "give the addresses to the bond");
      return;
    }
    constexpr std::size_t kNameMost = 15;  // IFNAMSIZ of linux/if.h, without its zero
    if (const std::string made = fmt::format("{}.{}", below.netdev.value, vlan.vlan.value); made.size() > kNameMost) {
      find(below.netdev.value, vlan.netdev.value, "vlan",
           fmt::format("its interface would be {} here, longer than {} characters: the VLAN is left out", made,
                       kNameMost),
           "rename " + below.netdev.value + " in the files, and import again");
      return;
    }
    if (!below.addresses.empty()) {
      const bool is_vlan = below.vlan.known();
      find(below.netdev.value, vlan.netdev.value, "vlan",
           fmt::format(
               "the interface {} below it has {} ({}), and a scenario's NIC has one network: the VLAN is left out",
               below.netdev.value, is_vlan ? "another VLAN with addresses" : "addresses, too",
               below.addresses.front().source),
           "import each separately if both carry RDMA");
      return;
    }
    below.vlan = vlan.vlan;
    give_addresses(below, vlan);
  }

  // -- bridges --------------------------------------------------------------------------------------------------------

  void fold_bridge(const NicFacts& said) {
    const NicFacts bridge = said;
    std::vector<NicFacts*> ports;
    for (NicFacts& nic : host_.nics) {
      const bool is_real = nic.kind.empty() || nic.kind == "bond" || nic.kind == "vlan";
      if (is_real && nic.netdev.known() && nic.master == bridge.netdev.value) ports.push_back(&nic);
    }
    if (ports.empty()) return;
    for (NicFacts* const port : ports) give_routes(*port, bridge);
    if (bridge.addresses.empty()) return;
    give_addresses(*ports.front(), bridge);
    const std::string first = ports.front()->netdev.value;
    if (ports.size() > 1) {
      find(first, bridge.netdev.value, "bridge",
           fmt::format("the bridge joins {} ports ({}), and a scenario has no bridges within a node: {} has its "
                       "addresses, the others have none ({})",
                       ports.size(), names_of(ports), first, bridge.addresses.front().source),
           "take the ports out of the bridge and give each an address in a subnet of its own; RDMA is not bridged");
    }
    if (vlans_over_.count(bridge.netdev.value) > 0) report_untagged(first, bridge.netdev.value, "bridge");
  }

  static std::string names_of(const std::vector<NicFacts*>& nics) {
    std::string text;
    for (const NicFacts* nic : nics) text += (text.empty() ? "" : ", ") + nic->netdev.value;
    return text;
  }

  void report_untagged(const std::string& netdev, const std::string& upper, const char* kind) {
    const std::vector<NicFacts>& vlans = vlans_over_.at(upper);
    std::string names;
    for (const NicFacts& vlan : vlans) names += (names.empty() ? "" : ", ") + vlan.netdev.value;
    find(netdev, upper, "vlan",
         fmt::format("{} is a VLAN interface on a {}, which a scenario does not have: its addresses are the {}'s, and "
                     "frames have no tag ({})",
                     names, kind, kind, vlans.front().netdev.source),
         "nothing, if no port is to be kept from another by VLANs; a frame is 4 bytes longer on the wire");
  }

  // -- bonds ----------------------------------------------------------------------------------------------------------

  void fold_bond(const std::string& name) {
    const NicFacts bond = *nic_with(host_, name);
    std::vector<NicFacts*> members = members_of(bond);
    if (members.empty()) return;
    for (NicFacts* const member : members) give_routes(*member, bond);
    BondFacts facts{.name = name,
                    .source = bond.netdev.source,
                    .members = {},
                    .mode = bond.bond_mode,
                    .hash = bond.bond_hash,
                    .device = {}};
    for (const NicFacts* member : members) facts.members.push_back(member->netdev.value);
    take_device(bond, members, facts);
    facts.is_lag = is_one_card(facts, members);
    const bool is_mode_unknown = !facts.mode.known();
    if (is_mode_unknown) facts.mode.offer(facts.is_lag ? "802.3ad" : "active-backup", "assumed");
    share(bond, members, facts);
    NicFacts& first = *members.front();
    give_addresses(first, bond);
    move_facts(first.gids, bond.gids);
    NicFacts& upper = *lower_named(host_, name);  // the members are the NICs now
    upper.device = {};
    upper.gids.clear();
    const std::string reason = reason_against(facts, members);
    if (!reason.empty()) {
      if (!first.device.known()) first.device = facts.device;
      fall_back(bond, first, reason);
      return;
    }
    for (NicFacts* const member : members) member->bond = static_cast<int>(host_.bonds.size());
    host_.bonds.push_back(facts);
    if (is_mode_unknown) {
      assumed_.add("bond's mode", fmt::format("{}/{}", host_.name.value, name), facts.mode.value,
                   "which mode has it? /proc/net/bonding shows it");
    }
    if (vlans_over_.count(name) > 0) report_untagged(first.netdev.value, name, "bond");
  }

  /// The active one first; else one whose link is up; else in the order of the files.
  std::vector<NicFacts*> members_of(const NicFacts& bond) {
    std::vector<NicFacts*> members;
    for (NicFacts& nic : host_.nics) {
      if (nic.netdev.known() && nic.kind.empty() && nic.master == bond.netdev.value) members.push_back(&nic);
    }
    if (bond.bond_mode.value_or("active-backup") != "active-backup") return members;
    const auto rank = [&](const NicFacts* nic) {
      if (!nic->link_up.value_or(true)) return 2;
      return bond.bond_active.known() && bond.bond_active.value == nic->netdev.value ? 0 : 1;
    };
    std::stable_sort(members.begin(), members.end(),
                     [&](const NicFacts* left, const NicFacts* right) { return rank(left) < rank(right); });
    return members;
  }

  /// Of a RoCE LAG `rdma link` and ibdev2netdev name the bond, or its first member.
  static void take_device(const NicFacts& bond, const std::vector<NicFacts*>& members, BondFacts& facts) {
    facts.device = bond.device;
    const auto has_device = [](const NicFacts* nic) { return nic->device.known(); };
    if (facts.device.known() || std::count_if(members.begin(), members.end(), has_device) != 1) return;
    NicFacts& holder = **std::find_if(members.begin(), members.end(), has_device);
    const bool is_named = holder.device.value.find("bond") != std::string::npos;
    const bool is_card = std::all_of(members.begin(), members.end(),
                                     [&](const NicFacts* nic) { return nic == &holder || on_one_card(*nic, holder); });
    if (is_named || is_card) std::swap(facts.device, holder.device);
  }

  static bool on_one_card(const NicFacts& one, const NicFacts& other) {
    if (one.pci_address.known() && other.pci_address.known()) {
      return models::differ_in_function(one.pci_address.value, other.pci_address.value);
    }
    const auto place = [](const NicFacts& nic) { return nic.netdev.value.substr(0, nic.netdev.value.rfind("np")); };
    return models::differ_in_function(place(one), place(other));
  }

  static bool is_one_card(const BondFacts& facts, const std::vector<NicFacts*>& members) {
    if (facts.device.known()) return true;
    const NicFacts& first = *members.front();
    return std::all_of(members.begin(), members.end(), [&](const NicFacts* nic) {
      // The driver would have made one device of both.
      const bool has_own = nic->device.known() && !models::differ_in_function(nic->device.value, first.device.value);
      return nic == &first || (!has_own && on_one_card(*nic, first));
    });
  }

  /// One MTU and one rate, as bonding sets or needs them.
  void share(const NicFacts& bond, const std::vector<NicFacts*>& members, const BondFacts& facts) {
    const auto first_known = [&](auto member) {
      const auto found =
          std::find_if(members.begin(), members.end(), [&](const NicFacts* nic) { return (nic->*member).known(); });
      return found == members.end() ? nullptr : &((*found)->*member);
    };
    const Fact<std::uint32_t>* const mtu = bond.mtu_bytes.known() ? &bond.mtu_bytes : first_known(&NicFacts::mtu_bytes);
    if (mtu != nullptr) {
      const Fact<std::uint32_t> shared = *mtu;
      for (NicFacts* const nic : members) nic->mtu_bytes = shared;
    }
    const Fact<std::uint64_t>* const rate = first_known(&NicFacts::rate_bps);
    Fact<std::uint64_t> shared = rate != nullptr ? *rate : bond.rate_bps;
    if (!shared.known()) return;
    if (rate == nullptr && facts.mode.value != "active-backup") shared.value /= members.size();  // bonding reports all
    for (NicFacts* const nic : members) {
      if (!nic->rate_bps.known()) nic->rate_bps = shared;
    }
  }

  /// Why a scenario cannot have the bond; empty: it can.
  std::string reason_against(const BondFacts& facts, const std::vector<NicFacts*>& members) const {
    const std::string &mode = facts.mode.value, &source = facts.mode.source;
    if (members.size() < 2) return fmt::format("it has one member ({})", members.front()->netdev.source);
    if (mode != "802.3ad" && mode != "balance-xor" && mode != "active-backup") {
      return fmt::format("the mlx5 driver makes no RoCE LAG of mode {} ({}); take 802.3ad or active-backup", mode,
                         source);
    }
    if (!facts.is_lag && mode != "active-backup") {
      return fmt::format(
          "its members are not functions of one card, so that mode {} makes no RoCE LAG ({}); take both "
          "functions of one card, or active-backup",
          mode, source);
    }
    for (const NicFacts* member : members) {
      if (member->rate_bps.value == members.front()->rate_bps.value) continue;
      return fmt::format("its members have different rates: {} {} ({}), {} {} ({}); use ports of one rate",
                         members.front()->netdev.value, rate_text(members.front()->rate_bps.value),
                         members.front()->rate_bps.source, member->netdev.value, rate_text(member->rate_bps.value),
                         member->rate_bps.source);
    }
    if (!facts.is_lag) return "";
    for (const NicFacts& nic : host_.nics) {
      const bool is_member = std::find(members.begin(), members.end(), &nic) != members.end();
      if (is_member || !nic.netdev.known() || !nic.kind.empty() || !on_one_card(nic, *members.front())) continue;
      return fmt::format(
          "{} is a function of the same card and not in it ({}), so that the driver makes no RoCE LAG; "
          "put all functions of the card into the bond",
          nic.netdev.value, nic.netdev.source);
    }
    return "";
  }

  void fall_back(const NicFacts& bond, NicFacts& first, const std::string& reason) {
    const std::size_t semicolon = reason.rfind("; ");
    const std::string cause = reason.substr(0, semicolon);
    const auto vlans = vlans_over_.find(bond.netdev.value);
    if (vlans != vlans_over_.end() && vlans->second.size() == 1) first.vlan = vlans->second.front().vlan;
    find(first.netdev.value, bond.netdev.value, "bond",
         fmt::format("the bond is not imported, since {}: {} has its addresses, other members have none", cause,
                     first.netdev.value),
         semicolon == std::string::npos ? "add a member, or give the address to the interface itself"
                                        : reason.substr(semicolon + 2));
  }

  HostFacts& host_;
  AssumedList& assumed_;
  std::vector<PendingFinding> pending_;
  std::map<std::string, std::vector<NicFacts>> vlans_over_;  // by the bond or bridge below them
};

}  // namespace

const NicFacts* nic_with(const HostFacts& host, const std::string& netdev) {
  for (const NicFacts& nic : host.nics) {
    if (nic.netdev.known() && nic.netdev.value == netdev) return &nic;
  }
  return nullptr;
}

const NicFacts* first_member(const HostFacts& host, int bond) {
  const BondFacts& facts = host.bonds.at(static_cast<std::size_t>(bond));
  return facts.members.empty() ? nullptr : nic_with(host, facts.members.front());
}

std::vector<PendingFinding> fold_uppers(HostFacts& host, AssumedList& assumed) { return Folder(host, assumed).fold(); }

}  // namespace meshbed::testbed::hosts
