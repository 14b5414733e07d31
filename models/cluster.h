#pragma once
// A cluster as a value: nodes, their NICs and GPUs, the cables and switches between them.
//
// Pure data, read from a scenario file (testbed/scenario) and consumed by every world. Nothing here knows a simulator,
// a socket or a file. All indices are positions in the vectors below; a scenario's names are unique within their
// vector.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/address.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::models {

using meshbed::Family;
using meshbed::IpAddress;
using meshbed::IpPrefix;

/// An error says what is wrong with the text.
Result<IpAddress> parse_ip(const std::string& text);
/// "ADDRESS/LENGTH"; an error says what is wrong with the text.
Result<IpPrefix> read_prefix(const std::string& text);
/// 169.254/16 (RFC 3927).
bool is_ipv4_link_local(const IpAddress& address);
bool same_subnet(const IpPrefix& left, const IpPrefix& right);
/// True where two different subnets share addresses (one holds the other).
bool overlaps(const IpPrefix& left, const IpPrefix& right);

/// 16 raw bytes as ibv_gid. IPv4 is mapped (::ffff:a.b.c.d), as RoCE v2 does it.
using RawGid = std::array<std::uint8_t, 16>;
inline RawGid gid_of(const IpAddress& address) { return mapped_bytes(address); }

enum class GidType : std::uint8_t { kRoceV1, kRoceV2 };

struct GidEntry {
  std::uint32_t index = 0;
  GidType type = GidType::kRoceV2;
  RawGid gid{};
  std::uint16_t vlan = 0;  // of the VLAN interface that it belongs to; 0: of the port's own
  bool operator==(const GidEntry&) const = default;
};

/// By way of a router, as `ip route add DESTINATION via GATEWAY` on the NIC's interface says it.
struct GatewayRoute {
  IpPrefix destination;
  IpAddress gateway;  // the router's, in a subnet of the NIC
  bool operator==(const GatewayRoute&) const = default;
};

struct Nic {
  std::string device;               // RDMA device name, as ibv_get_device_name gives it: rocep1s0f0
  std::string netdev;               // kernel network interface: enp1s0f0np0
  std::vector<IpPrefix> addresses;  // of the netdev
  std::uint64_t rate_bps = 0;       // the port's rate
  std::uint32_t mtu_bytes = 9000;   // of the netdev; the RDMA active MTU is the largest 256 << n that fits with headers
  std::uint8_t port = 1;            // RDMA port number
  std::vector<GidEntry> gids;       // sorted by index; complete (the reader derives it where the file is silent)
  std::string pci_path;             // sysfs path of the PCI function, for ncclNetProperties::pciPath
  bool link_up = true;              // administrative state at the start
  bool dma_buf = false;             // its driver registers dma-bufs
  int pcie = -1;                    // index in Node::pcie; -1: on none that limits it
  std::string qsfp = {};            // the port of its node that it shares with those of the same name (lan/qsfp.h)
  std::uint16_t vlan = 0;           // its addresses are a VLAN interface's on the netdev (lan/vlan.h); 0: its own
  std::uint32_t switch_mtu_bytes = 0;     // of the switch's port that it is plugged into; 0: as the switch
  int bond = -1;                          // index in Node::bonds; -1: in none
  std::string function = {};              // its own RDMA name, where `device` is the name of a bond's; empty: `device`
  std::string function_netdev = {};       // its own interface, where `netdev` is a bond's; empty: `netdev`
  int router = -1;                        // index in Cluster::routers: its gateway; -1: it has none
  std::vector<GatewayRoute> routes = {};  // to the router's other subnets; of a bond, at the NIC with its addresses
  bool policy_routed = false;             // they stand in a table of their own, which a rule takes by source address
};

struct Gpu {
  std::string model;
  int pcie = -1;  // index in Node::pcie: the switch or link that it shares with NICs; -1: not given
};

/// What several PCI functions have between them and the node's memory: a PCIe link, or a switch's way up. Full duplex.
struct PcieLink {
  std::string name;
  std::uint64_t rate_bps = 0;   // of each direction, counted as a cable's is; 0: no limit
  std::uint64_t coded_bps = 0;  // all its bits after the code, where its lanes are known; 0: as rate_bps
};

/// Linux bonding's modes over which RoCE runs (lan/bond.h).
enum class BondMode : std::uint8_t { kActiveBackup, kBalanceXor, k8023ad };

/// One netdev over several functions of a node. What that means for RDMA: models/lan/bond.h.
struct Bond {
  std::string name;  // the netdev: bond0
  BondMode mode = BondMode::kActiveBackup;
  bool lag = false;          // RoCE LAG: the functions are one RDMA device, the first one's
  bool hashes_flows = true;  // false: it hashes the two ends' addresses alone, so that two nodes use one function
  std::vector<int> functions = {};  // indices in Node::nics; of active-backup the first is active at the start
};

/// The node's place on the management network: ordinary TCP, never RDMA.
struct ManagementPort {
  std::string netdev = "mgmt0";
  IpPrefix address;
};

struct Node {
  std::string name;
  // In the order in which the node enumerates its devices; behind them the functions without a device of their own
  // (lan/bond.h).
  std::vector<Nic> nics;
  std::vector<Gpu> gpus;
  std::vector<PcieLink> pcie;
  std::vector<Bond> bonds = {};
  bool peer_memory = false;  // nvidia_peermem is loaded: adapters register GPU memory by its address
  std::optional<ManagementPort> management;
  std::vector<std::pair<std::string, std::string>> environment;  // for every rank on this node

  const Nic& nic(int number) const { return nics.at(static_cast<std::size_t>(number)); }
  Nic& nic(int number) { return nics.at(static_cast<std::size_t>(number)); }
};

struct PortRef {
  int node = -1;
  int nic = -1;
  bool operator==(const PortRef&) const = default;
  auto operator<=>(const PortRef&) const = default;
};

/// Full duplex; both directions have the same rate and propagation delay.
struct Cable {
  std::string name;
  PortRef a, b;
  std::uint64_t rate_bps = 0;      // the slower of the two ports where the file is silent
  Picoseconds propagation_ps = 0;  // one way, NIC to NIC
};

/// A cable between two boxes of a switched network. Full duplex; each direction has the rate.
struct Trunk {
  std::string name;
  int a = -1, b = -1;  // indices in Switch::boxes
  std::uint64_t rate_bps = 0;
  Picoseconds propagation_ps = 0;  // one way
};

/// An output-queued, non-blocking switch: every port full duplex at its own rate. Or several of them that trunks join
/// to one network of layer 2 (lan/trunks.h).
struct Switch {
  std::string name;
  std::vector<PortRef> ports;
  std::uint64_t rate_bps = 0;           // of each port
  Picoseconds latency_ps = 0;           // forwarding delay, of each box
  Picoseconds propagation_ps = 0;       // of each cable, one way
  std::uint32_t mtu_bytes = 0;          // of each port (lan/frame.h); 0: any frame passes
  std::vector<std::string> boxes = {};  // their names; empty: it is one box
  std::vector<int> box_of_port = {};    // [port] of `ports`, index in `boxes`; empty where these are
  std::vector<Trunk> trunks = {};
};

/// What forwards between the subnets of several switches: a router, or the routing half of a leaf-spine fabric. It has
/// one port to each of them, full duplex.
struct Router {
  std::string name;
  std::vector<int> switches;       // indices in Cluster::switches, two or more
  std::uint64_t rate_bps = 0;      // of each port
  Picoseconds latency_ps = 0;      // forwarding delay
  Picoseconds propagation_ps = 0;  // of each cable to a switch, one way
};

struct ManagementNetwork {
  std::uint64_t rate_bps = 10'000'000'000;
  Picoseconds latency_ps = 20 * kPicosecondsPerMicrosecond;  // one way
};

struct Cluster {
  std::vector<Node> nodes;
  std::vector<Cable> cables;
  std::vector<Switch> switches;
  std::vector<Router> routers = {};
  std::optional<ManagementNetwork> management;
  /// Of nodes that were made as a torus: the length of each dimension, the first one fastest. Empty: of no torus.
  std::vector<int> torus_shape = {};

  // Numbers count from 0; of one that there is not, they throw std::out_of_range.
  const Node& at(int node) const { return nodes.at(static_cast<std::size_t>(node)); }
  Node& at(int node) { return nodes.at(static_cast<std::size_t>(node)); }
  const Nic& nic_of(int node, int nic) const { return at(node).nic(nic); }
  Nic& nic_of(int node, int nic) { return at(node).nic(nic); }
  const Nic& nic_of(PortRef port) const { return nic_of(port.node, port.nic); }
  Nic& nic_of(PortRef port) { return nic_of(port.node, port.nic); }
};

/// Room for every header that a RoCE packet may ever carry, as Linux reserves it (iboe_get_mtu,
/// include/rdma/ib_addr.h): GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4.
inline constexpr std::uint32_t kRdmaHeadersMostBytes = 40 + 8 + 12 + 4 + 28 + 4;
/// RDMA active MTU (bytes) for a netdev MTU: the largest of 256..4096 whose RoCE v2 packet fits
/// (Linux iboe_get_mtu, include/rdma/ib_addr.h); 0 where not even 256 fits, which the scenario reader refuses.
std::uint32_t rdma_mtu_bytes(std::uint32_t netdev_mtu_bytes);

}  // namespace meshbed::models
