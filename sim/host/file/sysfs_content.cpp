// SysfsTree: the content of the files.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "plugin/base/prng.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/host/file/route_tables.h"
#include "sim/host/file/sysfs_tree.h"
#include "sim/host/host_state.h"
#include "sim/host/identity.h"

namespace meshbed::sim {
namespace {

constexpr std::uint64_t kMbps = 1'000'000;
constexpr std::uint64_t kGbps = 1'000'000'000;

const models::Nic& nic_at(models::PortRef port) {
  return World::get().node_at(port.node).nics[static_cast<std::size_t>(port.nic)];
}

bool port_up(models::PortRef port) { return World::get().network().port_up(port); }

/// As the table is now; nullptr: an empty entry.
const models::GidEntry* gid_at(models::PortRef port, std::uint32_t index) {
  const models::Nic& nic = nic_at(port);
  const auto entry = std::find_if(nic.gids.begin(), nic.gids.end(),
                                  [&](const models::GidEntry& candidate) { return candidate.index == index; });
  return entry != nic.gids.end() ? &*entry : nullptr;
}

std::string sysfs_gid_text(const models::RawGid& gid) {
  std::string text;
  for (std::size_t index = 0; index < gid.size(); index += 2) {
    text += fmt::format("{}{:02x}{:02x}", index == 0 ? "" : ":", gid[index], gid[index + 1]);
  }
  return text;
}

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48U, (guid >> 32U) & 0xffffU, (guid >> 16U) & 0xffffU,
                     guid & 0xffffU);
}

/// A UUID that is the same in each run of one seed.
std::string boot_id(int node) {
  const std::uint64_t high = mix64(World::get().options().seed ^ mix64(static_cast<std::uint64_t>(node)));
  const std::uint64_t low = mix64(high);
  return fmt::format("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", high >> 32U, (high >> 16U) & 0xffffU, high & 0xfffU,
                     (low >> 48U) & 0xfffU, low & 0xffff'ffff'ffffU);
}

std::string pci_directory(models::PortRef port) {
  const auto& path = nic_at(port).pci_path;
  return path.starts_with("/sys/devices/") ? path : "/sys/devices/platform/" + nic_at(port).device;
}

}  // namespace

/// proc(5), namespaces(7): processes of one node are in the same ones.
void SysfsTree::add_process(const Process& process) {
  const std::uint32_t id = process_id_of(process);
  const std::string folder = fmt::format("/proc/{}", id);
  const auto command = [&process] { return state_of(const_cast<Process&>(process)).command; };
  const auto program = [command, &process] {
    const std::vector<std::string> words = command();
    return words.empty() ? process.name : words.front();
  };
  add_file(folder + "/cmdline", [command, program] {
    std::string text;
    for (const std::string& word : command()) text += word + '\0';
    return text.empty() ? program() + '\0' : text;
  });
  const auto name = [program] {
    constexpr std::size_t kMost = 15;  // TASK_COMM_LEN without its zero byte
    const std::string path = program();
    return path.substr(path.rfind('/') + 1).substr(0, kMost);  // npos + 1 is 0
  };
  add_file(folder + "/comm", [name] { return name() + "\n"; });
  add_file(folder + "/environ", [&process] {
    std::string text;
    for (const auto& [variable, value] : process.environment) text += variable + "=" + value + '\0';
    return text;
  });
  add_file(folder + "/status", [name, id] {
    return fmt::format("Name:\t{}\nState:\tR (running)\nTgid:\t{}\nPid:\t{}\nPPid:\t1\n", name(), id, id);
  });
  at(folder + "/exe").kind = SysfsNode::Kind::kLink;
  at(folder + "/exe").read = program;
  constexpr std::uint64_t kFirstNamespace = 4'026'531'840;  // as Linux numbers the first ones
  for (const char* kind : {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}) {
    SysfsNode& link = at(folder + "/ns/" + kind);
    link.kind = SysfsNode::Kind::kLink;
    link.target = fmt::format("{}:[{}]", kind, kFirstNamespace + static_cast<std::uint64_t>(node_));
  }
}

SysfsTree::SysfsTree(int node) : node_(node) {
  const models::Node& own = World::get().node_at(node);
  for (const char* name : {"infiniband", "infiniband_verbs", "net"}) at("/sys/class/" + std::string(name));
  add_text("/proc/sys/kernel/random/boot_id", boot_id(node));
  add_file("/proc/net/route", [node] { return ipv4_route_text(node); });
  add_file("/proc/net/ipv6_route", [node] { return ipv6_route_text(node); });
  for (const auto& process : World::get().processes()) {
    if (process->node == node) add_process(*process);
  }
  if (own.peer_memory) add_text("/sys/module/nvidia_peermem/version", "580.82.07");
  add_netdev(
      "/sys/devices/virtual/net/lo", "lo", "00:00:00:00:00:00", 1, 65'536, [] { return true; }, 0);
  for (std::size_t nic = 0; nic < own.nics.size(); ++nic) add_port({node, static_cast<int>(nic)});
  if (own.management) {
    const models::PortRef after_all{node, static_cast<int>(own.nics.size())};
    const auto rate_bps = World::get().cluster().management.value_or(models::ManagementNetwork{}).rate_bps;
    add_netdev(
        "/sys/devices/virtual/net/" + own.management->netdev, own.management->netdev, mac_text(mac_of(after_all)),
        interface_index_of(after_all), 1500, [] { return true; }, rate_bps);
  }
}

void SysfsTree::add_port(models::PortRef port) {
  const models::Nic& nic = nic_at(port);
  const std::string pci = pci_directory(port);
  const std::string device = pci + "/infiniband/" + nic.device;
  const std::string verbs = fmt::format("{}/infiniband_verbs/uverbs{}", pci, port.nic);
  const std::string netdev = pci + "/net/" + nic.netdev;
  if (!models::is_lag_function(World::get().node_at(port.node), port.nic)) {
    add_rdma_device(port, device);
    add_link(device + "/device", pci);
    add_link("/sys/class/infiniband/" + nic.device, device);
    add_text(verbs + "/ibdev", nic.device);
    add_link(verbs + "/device", pci);
    add_link(fmt::format("/sys/class/infiniband_verbs/uverbs{}", port.nic), verbs);
  }
  add_netdev(
      netdev, nic.netdev, mac_text(mac_of(port)), interface_index_of(port), nic.mtu_bytes,
      [port] { return port_up(port); }, nic.rate_bps);
  add_link(netdev + "/device", pci);
  add_text(netdev + "/dev_port", std::to_string(nic.port - 1));
  if (nic.vlan != 0) add_vlan(port, netdev);
}

/// The VLAN interface on the port's netdev, whose directory is `lower`: a virtual device with that one's MAC address.
void SysfsTree::add_vlan(models::PortRef port, const std::string& lower) {
  const models::Nic& nic = nic_at(port);
  const std::string name = models::vlan_netdev(nic);
  const std::string directory = "/sys/devices/virtual/net/" + name;
  add_netdev(
      directory, name, mac_text(mac_of(port)),
      vlan_interface_index_of(port, World::get().node_at(port.node).nics.size()), nic.mtu_bytes,
      [port] { return port_up(port); }, nic.rate_bps);
  add_link(directory + "/lower_" + nic.netdev, lower);
  add_link(lower + "/upper_" + name, directory);
}

void SysfsTree::add_rdma_device(models::PortRef port, const std::string& directory) {
  const models::Nic& nic = nic_at(port);
  add_text(directory + "/node_guid", guid_text(node_guid_of(port)));
  add_text(directory + "/sys_image_guid", guid_text(node_guid_of(port)));
  add_text(directory + "/node_type", "1: CA");
  add_text(directory + "/node_desc", World::get().node_at(port.node).name + " " + nic.device);
  add_text(directory + "/fw_ver", "meshbed");
  const std::string ports = fmt::format("{}/ports/{}", directory, nic.port);
  add_file(ports + "/state", [port] { return port_up(port) ? "4: ACTIVE\n" : "1: DOWN\n"; });
  add_file(ports + "/phys_state", [port] { return port_up(port) ? "5: LinkUp\n" : "3: Disabled\n"; });
  add_text(ports + "/link_layer", "Ethernet");
  add_text(ports + "/lid", "0x0");
  add_text(ports + "/rate", fmt::format("{} Gb/sec", nic.rate_bps / kGbps));
  add_gids(port, ports);
}

void SysfsTree::add_gids(models::PortRef port, const std::string& directory) {
  for (std::uint32_t index = 0; index < gid_table_length(nic_at(port)); ++index) {
    const std::string gid = fmt::format("{}/gids/{}", directory, index);
    const std::string type = fmt::format("{}/gid_attrs/types/{}", directory, index);
    const std::string netdev = fmt::format("{}/gid_attrs/ndevs/{}", directory, index);
    add_file(gid, [port, index] {
      const models::GidEntry* entry = gid_at(port, index);
      return sysfs_gid_text(entry != nullptr ? entry->gid : models::RawGid{}) + "\n";
    });
    add_file(type, [port, index] {
      return gid_at(port, index)->type == models::GidType::kRoceV1 ? "IB/RoCE v1\n" : "RoCE v2\n";
    });
    add_file(netdev, [port, index] { return models::netdev_of(nic_at(port), *gid_at(port, index)) + "\n"; });
    at(type).read_error = at(netdev).read_error = [port, index] { return gid_at(port, index) != nullptr ? 0 : EINVAL; };
  }
}

void SysfsTree::add_netdev(const std::string& directory, const std::string& name, const std::string& mac,
                           unsigned index, std::uint32_t mtu_bytes, std::function<bool()> up, std::uint64_t rate_bps) {
  add_text(directory + "/address", mac);
  add_text(directory + "/ifindex", std::to_string(index));
  add_text(directory + "/mtu", std::to_string(mtu_bytes));
  add_text(directory + "/type", name == "lo" ? "772" : "1");  // ARPHRD_LOOPBACK, ARPHRD_ETHER
  add_file(directory + "/carrier", [up] { return up() ? "1\n" : "0\n"; });
  add_file(directory + "/operstate", [up] { return up() ? "up\n" : "down\n"; });
  // Without carrier Linux shows -1; the loopback interface has no readable speed.
  add_file(directory + "/speed", [up, rate_bps] { return up() ? std::to_string(rate_bps / kMbps) + "\n" : "-1\n"; });
  if (rate_bps == 0) at(directory + "/speed").read_error = [] { return EINVAL; };
  add_link("/sys/class/net/" + name, directory);
}

}  // namespace meshbed::sim
