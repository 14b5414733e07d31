// From paths to facts: parts of nodes, each by the reader that fits it.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plugin/base/name_list.h"
#include "testbed/import/import.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

std::string base_of(const std::string& name) { return name.substr(name.rfind('/') + 1); }

/// Parts whose name says what they are, as collect writes them; their text is one fact. False: it is another part.
bool take_whole(const Part& part, HostFacts& host) {
  static const std::map<std::string, std::string> kFacts{{"ulimit", "memlock"},
                                                         {"ulimit.txt", "memlock"},
                                                         {"iptables.txt", "firewall"},
                                                         {"nft.txt", "firewall"},
                                                         {"ip-rule.txt", "rules"},
                                                         {"limits.conf", "limits"},
                                                         {"kernel.txt", "kernel"},
                                                         {"dev-infiniband.txt", "dev-infiniband"},
                                                         {"os-release", "os"},
                                                         {"dmesg.txt", "dmesg"},
                                                         {"nvidia-smi-topo.txt", "gpu-topology"},
                                                         {"missing", "missing"}};
  const std::string base = base_of(part.name), text(without_blanks(part.text)), source = part.path + ":1";
  if (base == "hostname" || base == "hostname.txt") {
    if (!text.empty()) host.name.offer(text.substr(0, text.find_first_of(". \n")), source);
    return true;
  }
  const auto known = kFacts.find(base);
  if (known == kFacts.end()) return false;
  host.others[known->second].offer(text, source);
  return true;
}

/// The device order of ibv_get_device_list() is that of ibv_devinfo, so this comes first; configuration last.
int rank_of(const Part& part) {
  const std::string base = base_of(part.name);
  if (base.rfind("ibv_devinfo", 0) == 0) return 0;
  if (part.name.rfind("etc/", 0) == 0) return 2;
  return 1;
}

void take_pci(HostFacts& host) {
  // Functions of NCCL's file and of the others are one NIC where only one of them has a name.
  for (std::size_t index = 0; index < host.nics.size(); ++index) {
    NicFacts& nic = host.nics[index];
    if (!nic.name().empty() || !nic.pci_address.known()) continue;
    const bool is_known = std::any_of(host.nics.begin(), host.nics.end(), [&](const NicFacts& other) {
      return !other.name().empty() && other.pci_address.value == nic.pci_address.value;
    });
    if (is_known) host.nics.erase(host.nics.begin() + static_cast<std::ptrdiff_t>(index--));
  }
  // A device and an interface of one PCI function are one NIC.
  for (const NicFacts& nic : std::vector<NicFacts>(host.nics)) {
    if (!nic.device.known() || nic.netdev.known() || !nic.pci_address.known()) continue;
    for (const NicFacts& other : std::vector<NicFacts>(host.nics)) {
      const bool is_same = other.netdev.known() && !other.device.known() && other.kind.empty() &&
                           other.pci_address.value == nic.pci_address.value;
      if (is_same) host.join(nic.device.value, other.netdev.value, nic.pci_address.source);
    }
  }
}

void read_node(NodeParts node, Machines& machines) {
  HostFacts host;
  host.path = node.path;
  std::stable_sort(node.parts.begin(), node.parts.end(),
                   [](const Part& left, const Part& right) { return rank_of(left) < rank_of(right); });
  Machines others;
  for (const Part& part : node.parts) {
    Reading into{host, others};
    const bool knew = take_whole(part, host) || read_part(part, into);
    // Kept for readers of archives: counters, pause settings, drivers, further configuration files.
    const bool is_kept = part.name.rfind("ethtool-", 0) == 0 || part.name.rfind("etc/", 0) == 0;
    (knew || is_kept ? host.read : host.unread).push_back(part.path);
  }
  host.settle_names();
  take_pci(host);
  const bool is_host = !host.nics.empty() || !host.gpus.empty() || others.hosts.empty();
  if (is_host) {
    if (!host.name.known()) host.name.offer(node.name, node.path, Origin::kConfigured);
    machines.hosts.push_back(std::move(host));
  }
  for (HostFacts& each : others.hosts) machines.hosts.push_back(std::move(each));
  for (GivenCable& each : others.cables) machines.cables.push_back(std::move(each));
  for (GivenSwitch& each : others.switches) machines.switches.push_back(std::move(each));
}

}  // namespace

Machines read_machines(const std::vector<std::string>& paths) {
  Machines machines;
  for (const std::string& path : paths) {
    for (NodeParts& node : nodes_at(path)) read_node(std::move(node), machines);
  }
  return machines;
}

Machines read_text(const std::string& path, const std::string& text) {
  Machines machines;
  std::vector<Part> parts = parts_of_list(path, text);
  if (parts.empty()) parts = {{path, base_of(path), text}};
  const std::string base = base_of(path);
  for (NodeParts& node : split_by_node(base.substr(0, base.find('.')), path, std::move(parts))) {
    read_node(std::move(node), machines);
  }
  return machines;
}

Imported import_machines(const std::vector<std::string>& paths, const Assumptions& assumptions) {
  return scenario_of(read_machines(paths), assumptions);
}

}  // namespace meshbed::testbed::hosts
