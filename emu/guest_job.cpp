#include "emu/guest_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <vector>

#include "emu/scratch.h"
#include "emu/shell_quote.h"

namespace meshbed::emu {
namespace {

constexpr int kManagementMtu = 1500;
/// What a terminal runs: the host's own bash; POSIX asks for none, so sh where it is missing.
const std::vector<std::string> kShell{"/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"};

std::string host_of(const std::string& address) { return address.substr(0, address.find('/')); }

}  // namespace

std::string node_text(const EmuNode& node, const std::string& folder) {
  return fmt::format("NODE_NAME={}\nJOB_PATH={}\nCOMMANDS={}\nTERMINAL={}\n", shell_quote(node.name),
                     shell_quote(folder), node.commands.size(), node.terminal ? 1 : 0);
}

std::string hosts_text(const EmuCluster& cluster) {
  std::string text = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n";
  for (const EmuNode& node : cluster.nodes) {
    if (node.management_address) text += fmt::format("{} {}\n", host_of(*node.management_address), node.name);
  }
  return text;
}

std::string management_mac(const EmuCluster& cluster, int index) {
  std::set<std::string> taken;
  for (const EmuNode& node : cluster.nodes) {
    for (const EmuNic& nic : node.nics) taken.insert(lower_case(nic.mac));
  }
  // The first free byte in the middle for the whole cluster, the node below it.
  for (int group = 0; group < 256; ++group) {
    const auto mac = [&](int node) {
      return fmt::format("52:54:00:{:02x}:{:02x}:{:02x}", group, (node >> 8) & 0xff, node & 0xff);
    };
    bool is_free = true;
    for (int node = 0; node < static_cast<int>(cluster.nodes.size()); ++node) {
      is_free = is_free && taken.count(mac(node)) == 0;
    }
    if (is_free) return mac(index);
  }
  return fmt::format("52:54:01:00:{:02x}:{:02x}", (index >> 8) & 0xff, index & 0xff);
}

std::string nics_text(const EmuCluster& cluster, int index) {
  const EmuNode& node = cluster.nodes[static_cast<std::size_t>(index)];
  std::string text;
  for (const EmuNic& nic : node.nics) {
    text += fmt::format("{} {} {} {} {} {}\n", lower_case(nic.mac), nic.netdev, nic.mtu, nic.wire >= 0 ? 1 : 0,
                        nic.rdma ? nic.rdma_device : "-", fmt::join(nic.addresses, " "));
  }
  if (node.management_address) {
    text += fmt::format("{} {} {} 1 - {}\n", management_mac(cluster, index), kManagementNetdev, kManagementMtu,
                        *node.management_address);
  }
  return text;
}

std::string gids_text(const EmuNode& node) {
  std::string text;
  for (const EmuNic& nic : node.nics) {
    for (const std::string& address : nic.addresses) {
      // A port without a cable need not be ready.
      if (nic.rdma && nic.wire >= 0) text += fmt::format("{} {}\n", nic.rdma_device, gid_text(address));
    }
  }
  return text;
}

std::string command_text(const EmuNode& node, const std::vector<std::string>& command, const std::string& folder) {
  std::string text = "#!/bin/sh\n";
  for (const auto& [name, value] : node.environment) text += fmt::format("export {}={}\n", name, shell_quote(value));
  text += fmt::format("cd {} || exit 126\n", shell_quote(node.directory.empty() ? folder : node.directory));
  return text + fmt::format("exec {}\n", shell_command(command));
}

std::string command_file(const std::string& folder, int command, const std::string& suffix) {
  return fmt::format("{}/command-{}{}", folder, command, suffix);
}

void write_job(const EmuCluster& cluster, int index, const std::string& folder) {
  const EmuNode& node = cluster.nodes[static_cast<std::size_t>(index)];
  write_file(folder + "/hosts", hosts_text(cluster));
  write_file(folder + "/nics", nics_text(cluster, index));
  write_file(folder + "/gids", gids_text(node));
  for (int command = 0; command < static_cast<int>(node.commands.size()); ++command) {
    write_file(command_file(folder, command, ""),
               command_text(node, node.commands[static_cast<std::size_t>(command)], folder));
  }
  if (node.terminal) write_file(folder + "/terminal", command_text(node, kShell, folder));
  write_file(folder + "/node", node_text(node, folder));
}

}  // namespace meshbed::emu
