#include "emu/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>

#include "emu/shell_quote.h"
#include "plugin/base/address.h"

namespace meshbed::emu {
namespace {

// The kernel's own limits: IFNAMSIZ and IB_DEVICE_NAME_MAX, each with the closing zero; a label of a host name.
constexpr std::size_t kNetdevCharacters = 15;
constexpr std::size_t kRdmaCharacters = 63;
constexpr std::size_t kHostCharacters = 63;
constexpr int kLeastMtu = 256;  // RoCE's smallest path MTU; below it the port has none
constexpr int kMostMtu = 9216;

/// Letters, digits and what names of devices and hosts hold beside them. Stricter than the kernel, so that a name is
/// one word of a line everywhere on its way into the guest.
bool is_name(const std::string& text, std::size_t characters_max) {
  return !text.empty() && text.size() <= characters_max && text != "." && text != ".." && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char one) {
           return std::isalnum(one) != 0 || one == '_' || one == '-' || one == '.';
         });
}

bool is_mac(const std::string& text) {
  if (text.size() != 17) return false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto one = static_cast<unsigned char>(text[at]);
    if (at % 3 == 2 ? one != ':' : std::isxdigit(one) == 0) return false;
  }
  // The lowest bit of the first byte marks groups: no NIC has such an address.
  return std::string("13579bdfBDF").find(text[1]) == std::string::npos;
}

IpPrefix parse_address(const std::string& text) {
  const auto fail = [&](const char* why) {
    throw std::runtime_error(
        fmt::format("'{}' is no address: {}; write it as 192.168.100.1/24 or fd00::1/64", text, why));
  };
  const auto slash = text.find('/');
  if (slash == std::string::npos) fail("it has no prefix length");
  const auto address = parse_ip_address(text.substr(0, slash));
  if (!address) fail("neither IPv4 nor IPv6");
  const auto parsed = parse_prefix(text);
  if (!parsed || parsed->length_bits == 0) fail("its prefix length");
  return *parsed;
}

class Checker {
 public:
  explicit Checker(const EmuCluster& cluster) : cluster_(cluster) {}

  void check() {
    if (cluster_.nodes.empty()) fail("the cluster", "it has no nodes");
    for (const EmuNode& node : cluster_.nodes) check_node(node);
    const auto ends = wire_ends(cluster_);
    for (std::size_t wire = 0; wire < ends.size(); ++wire) {
      if (ends[wire].size() < 2) {
        fail(fmt::format("wire {}", wire), fmt::format("it has {} ends; a cable has two", ends[wire].size()));
      }
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& who, const std::string& why) {
    throw std::runtime_error(fmt::format("{} cannot be emulated: {}", who, why));
  }

  void check_node(const EmuNode& node) {
    const std::string who = fmt::format("node '{}'", node.name);
    if (!is_name(node.name, kHostCharacters)) fail(who, "its name is no host name");
    if (!node_names_.insert(lower_case(node.name)).second) fail(who, "another node has this name");
    if (node.memory_mib < kLeastMemoryMib) {
      fail(who, fmt::format("{} MiB of memory are too little to boot; give it {} or more", node.memory_mib,
                            kLeastMemoryMib));
    }
    if (node.cpus < 1) fail(who, fmt::format("it has {} processors", node.cpus));
    std::set<std::string> names{"lo", kManagementNetdev};
    std::set<std::string> devices;
    for (const EmuNic& nic : node.nics) {
      const std::string port = fmt::format("{}, NIC '{}'", who, nic.netdev);
      if (!is_name(nic.netdev, kNetdevCharacters)) fail(port, "its name is none that the kernel takes");
      if (!names.insert(nic.netdev).second) fail(port, "the node has this interface already");
      check_nic(port, nic);
      if (nic.rdma && !devices.insert(nic.rdma_device).second) {
        fail(port, fmt::format("the node has the verbs device '{}' already", nic.rdma_device));
      }
    }
    if (node.management_address) check_address(who, *node.management_address);
    for (const auto& [name, value] : node.environment) {
      if (!is_variable_name(name)) fail(who, fmt::format("'{}' is no name of an environment variable", name));
      if (value.find('\0') != std::string::npos) fail(who, fmt::format("the value of {} holds a zero byte", name));
    }
    for (const auto& command : node.commands) {
      if (command.empty()) fail(who, "one of its commands is empty");
      for (const std::string& argument : command) {
        if (argument.find('\0') != std::string::npos) fail(who, "an argument of a command holds a zero byte");
      }
    }
  }

  void check_nic(const std::string& port, const EmuNic& nic) {
    if (nic.rdma && !is_name(nic.rdma_device, kRdmaCharacters)) {
      fail(port, fmt::format("'{}' is no name of a verbs device", nic.rdma_device));
    }
    if (!is_mac(nic.mac)) fail(port, fmt::format("'{}' is no MAC address of a NIC", nic.mac));
    if (!macs_.insert(lower_case(nic.mac)).second) fail(port, fmt::format("the MAC address {} is taken", nic.mac));
    if (nic.mtu < kLeastMtu || nic.mtu > kMostMtu) {
      fail(port, fmt::format("an MTU of {}; {} to {} bytes work", nic.mtu, kLeastMtu, kMostMtu));
    }
    if (nic.wire < -1 || nic.wire >= cluster_.wires) {
      fail(port, fmt::format("wire {} of {}", nic.wire, cluster_.wires));
    }
    for (const std::string& address : nic.addresses) check_address(port, address);
  }

  static void check_address(const std::string& who, const std::string& text) {
    try {
      parse_address(text);
    } catch (const std::runtime_error& problem) {
      fail(who, problem.what());
    }
  }

  const EmuCluster& cluster_;
  std::set<std::string> node_names_;
  std::set<std::string> macs_;
};

}  // namespace

void check_cluster(const EmuCluster& cluster) { Checker(cluster).check(); }

std::string gid_text(const std::string& address) {
  const std::array<std::uint8_t, 16> bytes = mapped_bytes(parse_address(address).address);
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    text += fmt::format("{}{:02x}{:02x}", at == 0 ? "" : ":", bytes[at], bytes[at + 1]);
  }
  return text;
}

std::string network_text(const std::string& address) { return subnet_text(parse_address(address)); }

bool is_ipv6(const std::string& address) { return address.find(':') != std::string::npos; }

std::vector<std::vector<WireEnd>> wire_ends(const EmuCluster& cluster) {
  std::vector<std::vector<WireEnd>> ends(static_cast<std::size_t>(cluster.wires));
  for (int node = 0; node < static_cast<int>(cluster.nodes.size()); ++node) {
    const auto& nics = cluster.nodes[static_cast<std::size_t>(node)].nics;
    for (int nic = 0; nic < static_cast<int>(nics.size()); ++nic) {
      const int wire = nics[static_cast<std::size_t>(nic)].wire;
      if (wire >= 0) ends.at(static_cast<std::size_t>(wire)).push_back({.node = node, .nic = nic});
    }
  }
  return ends;
}

}  // namespace meshbed::emu
