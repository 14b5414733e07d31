#pragma once
// EmuCluster: the cluster to emulate, in plain values: nodes, their NICs, cables, and the commands that run in each.
//
// It does not depend on scenarios; the reader of a scenario fills it in. A wire with two ends is a cable, with more
// ends a switch.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace meshbed::emu {

struct EmuNic {
  std::string netdev;                  // the interface's name in the guest, at most 15 characters
  std::string rdma_device;             // the verbs device's name; used where `rdma`
  std::string mac;                     // "02:00:00:00:00:01"
  std::vector<std::string> addresses;  // "192.168.100.1/24", "fd00::1/64"
  int mtu = 1500;                      // bytes
  bool rdma = true;
  int wire = -1;  // number of the wire that is plugged in, below EmuCluster::wires; -1: no cable, the port stays down
};

struct EmuNode {
  std::string name;  // the guest's host name
  std::vector<EmuNic> nics;
  std::optional<std::string> management_address;  // "10.0.0.1/24": an interface kManagementNetdev apart from the cables
  std::vector<std::pair<std::string, std::string>> environment;  // of every command
  /// The argument vectors of the node's commands (one a rank, as a rule). All start together, once every node of the
  /// cluster is ready; the node is done when all have ended. The first that is not 0, in this order, is its exit code.
  std::vector<std::vector<std::string>> commands;
  bool terminal = false;  // a shell on MicroVms::terminal() too; the node is not done before it has ended
  std::string directory;  // where the commands start; empty: the node's job folder
  int memory_mib = 256;
  int cpus = 1;
};

struct EmuCluster {
  std::vector<EmuNode> nodes;
  int wires = 0;
};

/// The name of the interface on the management network.
inline constexpr const char* kManagementNetdev = "mgmt0";
/// Less does not boot with the host's file system mounted (measured: 128 does).
inline constexpr int kLeastMemoryMib = 128;

/// Throws std::runtime_error, one line, where the cluster cannot be emulated: names that the kernel would refuse or
/// that occur twice, addresses that are none, wires with fewer than two ends.
void check_cluster(const EmuCluster& cluster);

/// The RoCE v2 GID that an address "192.168.100.1/24" or "fd00::1/64" gives, as the kernel prints it:
/// "0000:0000:0000:0000:0000:ffff:c0a8:6401". Throws std::runtime_error where it is no address.
std::string gid_text(const std::string& address);

/// The network of such an address, "192.168.100.0/24"; throws likewise.
std::string network_text(const std::string& address);
bool is_ipv6(const std::string& address);

/// An end of a wire: NIC `nic` of node `node`.
struct WireEnd {
  int node = 0;
  int nic = 0;
};

/// By wire, in the order of nodes and NICs.
std::vector<std::vector<WireEnd>> wire_ends(const EmuCluster& cluster);

}  // namespace meshbed::emu
