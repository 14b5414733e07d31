// Which NICs are a mesh's, and their names.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <set>
#include <tuple>

#include "models/lan/bond.h"
#include "models/spark.h"
#include "testbed/import/infer/fold_uppers.h"
#include "testbed/import/infer/mesh.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

/// What a scenario takes as a name: letters, digits and _ . : + -, not starting with a dot or dash.
std::string as_name(const std::string& text, const std::string& other) {
  std::string name;
  for (const char letter : text) {
    const bool fits = std::isalnum(static_cast<unsigned char>(letter)) != 0 || std::string("_.:+-").find(letter) < 5;
    name += fits ? letter : '-';
  }
  while (!name.empty() && (name.front() == '.' || name.front() == '-')) name.erase(0, 1);
  name.resize(std::min<std::size_t>(name.size(), 63));
  return name.empty() ? other : name;
}

void name_hosts(Machines& machines) {
  std::set<std::string> taken;
  for (std::size_t index = 0; index < machines.hosts.size(); ++index) {
    HostFacts& host = machines.hosts[index];
    const std::string wanted = as_name(host.name.value, fmt::format("node{}", index));
    std::string name = wanted;
    for (int more = 2; !taken.insert(name).second; ++more) name = fmt::format("{}-{}", wanted, more);
    if (!host.name.known()) host.name.source = host.path;
    host.name.value = name;
  }
}

bool starts_with_any(const std::string& name, std::initializer_list<const char*> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const char* start) { return name.rfind(start, 0) == 0; });
}

/// enp1s0f0np0: a function of an adapter whose driver numbers its ports, as mlx5's and bnxt_en's do.
bool has_port_number(const std::string& netdev) {
  const std::size_t mark = netdev.rfind("np");
  return netdev.rfind("en", 0) == 0 && mark != std::string::npos && mark > 2 && mark + 2 < netdev.size() &&
         netdev.find_first_not_of("0123456789", mark + 2) == std::string::npos;
}

/// Why the interface by itself can be no NIC of a mesh; empty: it may be one.
std::string virtual_reason(const NicFacts& nic) {
  const std::string& name = nic.netdev.value;
  if (nic.kind == "wifi" || (nic.netdev.known() && starts_with_any(name, {"wl", "wwan"}))) return "is wireless";
  if (!nic.kind.empty() && !nic.device.known()) return fmt::format("is of kind {}", nic.kind);
  if (name == "lo") return "is the loopback interface";
  if (nic.device.known() || !nic.netdev.known()) return "";
  if (starts_with_any(
          name, {"docker", "br-",       "veth", "virbr", "tun",   "tap", "wg",  "cni",    "flannel",         "cali",
                 "kube",   "tailscale", "zt",   "lxc",   "dummy", "ifb", "sit", "ip6tnl", "bonding_masters", "usb"})) {
    return "is a virtual interface";
  }
  return "";
}

struct HostView {
  bool has_rdma = false;          // some NIC's RDMA device is known
  bool has_port_numbers = false;  // some name shows an adapter's port
  std::size_t candidates = 0;
};

/// The RDMA device is known, of the NIC or of all the bond's members together.
bool has_device(const HostFacts& host, const NicFacts& nic) {
  return nic.device.known() || (nic.bond >= 0 && host.bonds[static_cast<std::size_t>(nic.bond)].device.known());
}

/// Why the host's own configuration makes it another network's NIC; empty: it is the mesh's.
std::pair<std::string, std::string> other_reason(const HostFacts& host, const NicFacts& nic, const HostView& view,
                                                 bool is_given) {
  const std::string where = nic.netdev.source;
  if (nic.bond >= 0 && nic.addresses.empty()) {
    const NicFacts* const first = first_member(host, nic.bond);
    if (first != nullptr && !first->addresses.empty()) return other_reason(host, *first, view, is_given);
  }
  if (view.has_rdma && !has_device(host, nic) && !is_given) {
    if (nic.netdev.known()) return {"has no RDMA device", where};
    return {};
  }
  const bool is_last = view.candidates <= 1 && (nic.device.known() || nic.netdev.origin == Origin::kConfigured);
  if (!is_last && !nic.default_via.empty()) return {"the default route goes over it", nic.default_via};
  if (!is_last && !nic.dhcp.empty()) return {"gets its address from DHCP", nic.dhcp};
  const auto dynamic = std::find_if(nic.addresses.begin(), nic.addresses.end(),
                                    [](const AddressFact& address) { return address.is_dynamic; });
  if (!is_last && dynamic != nic.addresses.end()) return {"got its address from DHCP", dynamic->source};
  if (nic.device.known() || is_given || !nic.lldp.empty()) return {};
  if (!nic.netdev.known()) return {};  // a PCI function of NCCL's topology file
  if (view.has_port_numbers && !has_port_number(nic.netdev.value)) {
    return {"its name shows no adapter's port, as others' do", where};
  }
  if (nic.addresses.empty() && !has_port_number(nic.netdev.value)) {
    return {"has neither an address nor an RDMA device", where};
  }
  return {};
}

/// A bond is the mesh's with all its members, or with none.
void leave_out_together(HostFacts& host, int bond) {
  const auto is_out = [&](const NicFacts& nic) { return nic.bond == bond && !nic.no_mesh.empty(); };
  const auto out = std::find_if(host.nics.begin(), host.nics.end(), is_out);
  if (out == host.nics.end()) return;
  const std::string reason = out->no_mesh, source = out->no_source;
  for (NicFacts& nic : host.nics) {
    if (nic.bond == bond && nic.no_mesh.empty()) std::tie(nic.no_mesh, nic.no_source) = std::tie(reason, source);
  }
}

void choose(HostFacts& host, const std::set<std::string>& given) {
  HostView view;
  const auto is_given = [&](const NicFacts& nic) {
    return given.count(host.name.value + "/" + nic.netdev.value) > 0 ||
           given.count(host.name.value + "/" + nic.device.value) > 0;
  };
  for (NicFacts& nic : host.nics) {
    nic.no_mesh = is_given(nic) ? "" : virtual_reason(nic);
    nic.no_source = nic.netdev.source;
    if (!nic.no_mesh.empty()) continue;
    view.has_rdma = view.has_rdma || has_device(host, nic);
    view.has_port_numbers = view.has_port_numbers || has_port_number(nic.netdev.value);
  }
  for (const NicFacts& nic : host.nics) {
    const bool is_behind = nic.bond >= 0 && &nic != first_member(host, nic.bond);  // a bond counts once
    if (nic.no_mesh.empty() && !is_behind && (has_device(host, nic) || !view.has_rdma)) ++view.candidates;
  }
  for (NicFacts& nic : host.nics) {
    if (!nic.no_mesh.empty()) continue;
    std::tie(nic.no_mesh, nic.no_source) = other_reason(host, nic, view, is_given(nic));
  }
  for (std::size_t bond = 0; bond < host.bonds.size(); ++bond) leave_out_together(host, static_cast<int>(bond));
}

/// rdma-core's name by the PCI position that systemd's name contains (rdma_rename, NAME_PCI): enp1s0f0np0 is
/// rocep1s0f0. Empty: the name contains none.
std::string device_of(const std::string& netdev) {
  if (netdev.rfind("en", 0) != 0 || netdev.size() < 6 || (netdev[2] != 'p' && netdev[2] != 'P')) return "";
  const std::size_t mark = netdev.rfind("np");
  std::string position = netdev.substr(2, mark == std::string::npos || mark < 3 ? std::string::npos : mark - 2);
  if (position.find('s') == std::string::npos) return "";
  return "roce" + position;
}

/// "roces1f0" of ens1f0np0: made up, since the position on the bus is not in the name. Empty: it is of another form.
std::string slot_device_of(const std::string& netdev) {
  if (netdev.rfind("en", 0) != 0 || netdev.size() < 4) return "";
  const std::size_t mark = netdev.rfind("np");
  return "roce" + netdev.substr(2, mark == std::string::npos || mark < 3 ? std::string::npos : mark - 2);
}

/// Names of the functions of one card that differ in the function's number alone, as the scenario's reader needs them.
std::string member_device_of(const HostFacts& host, const NicFacts& nic) {
  const BondFacts& bond = host.bonds[static_cast<std::size_t>(nic.bond)];
  const std::string by_position = device_of(nic.netdev.value), by_slot = slot_device_of(nic.netdev.value);
  const auto all_have = [&](const auto& name_of) {
    return std::all_of(bond.members.begin(), bond.members.end(), [&](const std::string& member) {
      const std::string name = name_of(member);
      return member == nic.netdev.value || models::differ_in_function(name, name_of(nic.netdev.value));
    });
  };
  if (!bond.is_lag || all_have(device_of)) return by_position;
  if (all_have(slot_device_of)) return by_slot;
  const auto place = std::find(bond.members.begin(), bond.members.end(), nic.netdev.value) - bond.members.begin();
  return fmt::format("{}f{}", bond.name, place);
}

void name_devices(HostFacts& host, AssumedList& assumed) {
  std::set<std::string> taken;
  for (const NicFacts& nic : host.nics) taken.insert(nic.device.value);
  for (const BondFacts& bond : host.bonds) taken.insert(bond.device.value);
  int number = 0;
  for (NicFacts& nic : host.nics) {
    if (!nic.no_mesh.empty()) continue;
    if (nic.device.known()) {
      nic.device.value = as_name(nic.device.value, "mlx5");
      continue;
    }
    const std::string source = nic.netdev.known() ? nic.netdev.source : nic.pci_address.source;
    const std::string named = nic.bond >= 0 ? member_device_of(host, nic) : device_of(nic.netdev.value);
    std::string device = as_name(named, "");
    while (device.empty() || !taken.insert(device).second) device = fmt::format("mlx5_{}", number++);
    nic.device.offer(device, source);
    nic.device_assumed_from = nic.netdev.known() ? nic.netdev.value : nic.pci_address.value;
    assumed.add("RDMA device", host.name.value + "/" + nic.device_assumed_from,
                named.empty() ? "mlx5_N, in their order" : "roce and the interface's position",
                "what is it called? `rdma link` or `ibdev2netdev` prints it");
  }
}

/// Soft-RoCE reports a rate that says nothing about the interface below it.
void forget_soft_rates(HostFacts& host) {
  if (host.others.count("rdma_rxe") == 0) return;
  for (NicFacts& nic : host.nics) {
    if (nic.device.known() && !nic.pci_address.known()) nic.rate_bps = {};
  }
}

/// Where GIDs alone show a NIC's IPv4 address, its prefix is not known.
void take_gid_addresses(HostFacts& host, AssumedList& assumed) {
  constexpr int kPrefixAssumed = 24;
  for (NicFacts& nic : host.nics) {
    const bool is_addressed = !nic.addresses.empty() || nic.gids.empty();
    const NicFacts* const first = nic.bond >= 0 ? first_member(host, nic.bond) : &nic;
    if (is_addressed || !nic.no_mesh.empty() || first != &nic) continue;
    for (const GidFact& gid : nic.gids) {
      const IpAddress address = from_mapped_bytes(gid.gid);
      if (address.family != Family::kIpv4) continue;
      add_address(nic, fmt::format("{}/{}", to_text(address), kPrefixAssumed), gid.source + ", its prefix is assumed");
    }
    if (nic.addresses.empty()) continue;
    assumed.add("prefix", fmt::format("{}/{}", host.name.value, nic.device.value), fmt::format("/{}", kPrefixAssumed),
                "which prefix length has its address? `ip addr` prints it");
  }
}

std::string seen_in(const Machines& machines) {
  std::string text;
  for (const HostFacts& host : machines.hosts) {
    for (const NicFacts& nic : host.nics) {
      if (nic.no_mesh.empty()) continue;
      text += fmt::format("\n  {}/{} {}{}", host.name.value, nic.name(), nic.no_mesh,
                          nic.no_source.empty() ? "" : " (" + nic.no_source + ")");
    }
    for (const LeftOut& each : host.left_out) {
      text += fmt::format("\n  {}/{} {} ({})", host.name.value, each.name, each.reason, each.source);
    }
    if (host.nics.empty() && host.left_out.empty())
      text += fmt::format("\n  {}: no interfaces were read", host.name.value);
    for (const std::string& file : host.unread) text += fmt::format("\n  {} is of no known format", file);
  }
  return text;
}

}  // namespace

bool is_spark(const HostFacts& host) {
  bool any_second = false;
  for (const NicFacts& nic : host.nics) {
    if (!nic.no_mesh.empty()) continue;
    const auto function = models::spark_function(nic.device.value);
    if (!function) return false;
    any_second = any_second || function->link == 1;
  }
  const bool has_gb10 = std::any_of(host.gpus.begin(), host.gpus.end(), [](const GpuFacts& gpu) {
    return gpu.model.value.find("GB10") != std::string::npos;
  });
  return has_gb10 || any_second;
}

void choose_nics(Mesh& mesh) {
  std::set<std::string> given;
  for (const GivenCable& cable : mesh.machines.cables) {
    for (int end = 0; end < 2; ++end) given.insert(cable.node[end] + "/" + cable.port[end]);
  }
  name_hosts(mesh.machines);
  bool any = false;
  for (HostFacts& host : mesh.machines.hosts) {
    const std::vector<PendingFinding> pending = fold_uppers(host, mesh.assumed);
    forget_soft_rates(host);
    choose(host, given);
    take_gid_addresses(host, mesh.assumed);
    for (const PendingFinding& each : pending) {
      const NicFacts* const nic = nic_with(host, each.netdev);
      if (nic != nullptr && nic->no_mesh.empty()) mesh.findings.push_back(each.finding);
    }
    name_devices(host, mesh.assumed);
    const bool has_one =
        std::any_of(host.nics.begin(), host.nics.end(), [](const NicFacts& nic) { return nic.no_mesh.empty(); });
    any = any || has_one;
    if (has_one) continue;
    mesh.findings.push_back({Severity::kWarning, "no-mesh-nic", host.name.value,
                             "no interface of it looks like a NIC of a mesh",
                             "name a folder with its netplan files, or an archive of `meshbed collect`"});
  }
  if (any) return;
  throw std::runtime_error(
      "no NIC of a mesh was found (an RDMA device, or an Ethernet interface with an address that is not the "
      "management network's); what was seen:" +
      seen_in(mesh.machines));
}

}  // namespace meshbed::testbed::hosts
