// Files that set up the nodes' interfaces: netplan files, and scripts of ip; and NCCL's view of each node.

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "models/gid_table.h"
#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "models/pcie.h"
#include "testbed/base/xml_text.h"
#include "testbed/export/export.h"
#include "testbed/topology/bring_up.h"

namespace meshbed::testbed {
namespace {

/// Members are taken while they are down; bonding sets them up.
std::string bond_lines(const models::Node& node, const models::Bond& bond) {
  const models::Nic& first = node.nic(bond.functions.front());
  const bool hashes = bond.mode != models::BondMode::kActiveBackup;
  std::string text = fmt::format(
      "ip link add {} type bond mode {} miimon {}{}\n", bond.name, to_string(bond.mode),
      models::kBondLookPs / kPicosecondsPerMillisecond,
      hashes ? fmt::format(" xmit_hash_policy {}", bond.hashes_flows ? "layer3+4" : "layer2") : std::string());
  for (const int function : bond.functions) {
    const std::string& netdev = models::function_netdev(node.nic(function));
    text += fmt::format("ip link set dev {0} down\nip link set dev {0} master {1}\n", netdev, bond.name);
  }
  if (!hashes) {
    text += fmt::format("ip link set dev {} type bond primary {}\n", bond.name, models::function_netdev(first));
  }
  return text;
}

std::string ip_lines(const models::Nic& nic) {
  if (nic.addresses.empty()) return "";
  std::string text = fmt::format("ip link set dev {} mtu {} up\n", nic.netdev, nic.mtu_bytes), netdev = nic.netdev;
  if (nic.vlan != 0) {
    netdev = models::vlan_netdev(nic);
    text += fmt::format("ip link add link {} name {} type vlan id {}\nip link set dev {} mtu {} up\n", nic.netdev,
                        netdev, nic.vlan, netdev, nic.mtu_bytes);
  }
  for (const models::IpPrefix& address : nic.addresses) {
    text += fmt::format("ip address add {} dev {}\n", to_text(address), netdev);
  }
  for (const models::GatewayRoute& route : nic.routes) {
    text += fmt::format("ip route add {} via {} dev {}\n", to_text(route.destination), to_text(route.gateway), netdev);
  }
  return text;
}

/// Lanes and generation of a link of this rate; x16 of generation 5 where nothing limits the NIC.
std::pair<int, int> lanes_of(const models::Node& node, const models::Nic& nic) {
  if (nic.pcie < 0) return {16, 5};
  const std::uint64_t rate_bps = node.pcie[static_cast<std::size_t>(nic.pcie)].rate_bps;
  for (const int generation : {5, 4, 3, 6, 2, 1}) {
    for (const int lanes : {1, 2, 4, 8, 16, 32}) {
      if (models::pcie_rate_bps(lanes, generation) == rate_bps) return {lanes, generation};
    }
  }
  return {16, 5};
}

const char* speed_of(int generation) {
  constexpr std::array<const char*, 6> kSpeeds{"2.5 GT/s PCIe",  "5.0 GT/s PCIe",  "8.0 GT/s PCIe",
                                               "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"};
  return kSpeeds.at(static_cast<std::size_t>(generation - 1));
}

/// Compute capability, which NCCL calls sm; NVIDIA's list.
int capability_of(const std::string& model) {
  if (model.rfind("GB10", 0) == 0) return 121;
  if (model.rfind("A100", 0) == 0) return 80;
  return 90;
}

std::string bus_of(const models::Nic& nic) {
  const std::size_t slash = nic.pci_path.rfind('/');
  return slash == std::string::npos ? nic.pci_path : nic.pci_path.substr(slash + 1);
}

/// As NCCL writes NCCL_TOPO_DUMP_FILE, with one processor and the GPUs at bus addresses of their own.
std::string nccl_topology(const models::Node& node, std::size_t index) {
  std::string text =
      "<system version=\"1\">\n  <cpu numaid=\"0\" affinity=\"ffffffff\" arch=\"x86_64\" "
      "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n";
  for (std::size_t gpu = 0; gpu < node.gpus.size(); ++gpu) {
    text += fmt::format(
        "    <pci busid=\"000f:{:02x}:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\">\n      <gpu dev=\"{}\" sm=\"{}\" rank=\"{}\" gdr=\"0\"/>\n    </pci>\n",
        gpu + 1, gpu, capability_of(node.gpus[gpu].model), gpu);
  }
  int device = 0;
  for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
    const models::Nic& each = node.nics[nic];
    const auto [lanes, generation] = lanes_of(node, each);
    text += fmt::format("    <pci busid=\"{}\" class=\"0x020000\" link_speed=\"{}\" link_width=\"{}\">\n      <nic>\n",
                        bus_of(each), speed_of(generation), lanes);
    text += fmt::format(
        "        <net name=\"{}\" dev=\"{}\" latency=\"0\" speed=\"{}\" port=\"{}\" "
        "guid=\"0x{:x}\" maxconn=\"131072\" gdr=\"0\"/>\n      </nic>\n    </pci>\n",
        xml_text(each.device), device++, each.rate_bps / 1'000'000, each.port, (index + 1) << 16U | nic);
  }
  return text + "  </cpu>\n</system>\n";
}

}  // namespace

std::vector<ExportedFile> netplan_files(const Scenario& scenario) {
  std::vector<ExportedFile> files;
  for (const models::Node& node : scenario.cluster.nodes) {
    files.push_back({node.name + "/etc/netplan/60-meshbed.yaml", netplan_of(node)});
  }
  return files;
}

std::vector<ExportedFile> ip_scripts(const Scenario& scenario) {
  std::vector<ExportedFile> files;
  for (const models::Node& node : scenario.cluster.nodes) {
    std::string text = fmt::format("#!/bin/sh\n# {}: run as root; lasts until the next boot\nset -e\n", node.name);
    for (const models::Bond& bond : node.bonds) text += bond_lines(node, bond);
    for (const models::Nic& nic : node.nics) text += ip_lines(nic);
    files.push_back({node.name + "/ip.sh", text});
  }
  return files;
}

std::vector<ExportedFile> nccl_topologies(const Scenario& scenario) {
  std::vector<ExportedFile> files;
  for (const models::Node& node : scenario.cluster.nodes) {
    files.push_back({node.name + "/nccl-topology.xml", nccl_topology(node, files.size())});
  }
  return files;
}

}  // namespace meshbed::testbed
