#pragma once
// Facts: what files of machines contain about their NICs, addresses, links and GPUs, each value with the place where it
// was read. Plain values; any thread.

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/address.h"

namespace meshbed::testbed::hosts {

/// Where values come from. What a machine reports of itself counts more than what its configuration files ask for.
enum class Origin : std::uint8_t { kConfigured, kObserved };

/// A value and its source, "s1/etc/netplan/40-mesh.yaml:4". Not known as long as no file contains it.
template <typename T>
struct Fact {
  T value{};
  std::string source;  // empty: not known
  Origin origin = Origin::kConfigured;
  std::string contradiction;  // "1500 in s1/ip-addr.json:1": another value of the same thing; empty: none

  bool known() const { return !source.empty(); }
  T value_or(T other) const { return known() ? value : other; }
  /// Takes the value, unless a better one is known. A different value of the same thing becomes the contradiction.
  void offer(const T& offered, const std::string& from, Origin offered_origin = Origin::kObserved) {
    const bool better = !known() || offered_origin > origin;
    if (known() && !(offered == value)) {
      contradiction = better ? fmt::format("{} in {}", value, source) : fmt::format("{} in {}", offered, from);
    }
    if (!better) return;
    value = offered;
    source = from;
    origin = offered_origin;
  }
};

struct AddressFact {
  IpPrefix prefix;
  std::string source;
  bool is_dynamic = false;  // from DHCP
};

/// An entry of the GID table of the NIC's RDMA port.
struct GidFact {
  std::uint32_t index = 0;
  std::string type;  // "v1", "v2", "IB"; empty: not known
  models::RawGid gid{};
  std::string source;
};

/// The other end of the cable, as LLDP reports it.
struct LldpFact {
  std::string system;  // host or switch
  std::string port;    // its interface's name, MAC address or number
  std::string mac;     // lower case, where the port or the chassis is named by one; empty: it is not
  std::string source;
};

/// An entry of the neighbour table (ARP, NDP).
struct NeighbourFact {
  IpAddress address;
  std::string mac;
  std::string source;
};

/// A PCI function's link: what it runs at, and what it could.
struct PciFacts {
  std::string source;
  Fact<int> lanes, lanes_most, generation, generation_most;
};

struct NicFacts {
  Fact<std::string> device;  // RDMA device: rocep1s0f0
  Fact<std::string> netdev;  // enp1s0f0np0
  Fact<std::string> mac;     // lower case
  Fact<std::string> node_guid, image_guid;
  Fact<std::string> link_layer;  // "Ethernet", "InfiniBand"
  Fact<int> rdma_port;
  Fact<std::uint32_t> mtu_bytes;         // of the netdev
  Fact<std::uint32_t> active_mtu_bytes;  // of the RDMA port
  Fact<bool> link_up;
  Fact<std::uint64_t> rate_bps;
  Fact<std::string> pci_address;  // 0000:01:00.0
  Fact<int> vlan;                 // its addresses are a VLAN interface's
  std::vector<AddressFact> addresses;
  std::vector<GidFact> gids;
  std::vector<LldpFact> lldp;
  std::vector<NeighbourFact> neighbours;
  Fact<std::string> bond_mode;    // of a bond: "802.3ad"
  Fact<std::string> bond_hash;    // of a bond: "layer3+4", its transmit hash policy
  Fact<std::string> bond_active;  // of a bond: the member that is active, or the one that is to be
  int bond = -1;                  // of a member of a bond that the scenario has: index in HostFacts::bonds
  std::string kind;               // of a netdev that is no hardware: "loopback", "vlan", "bond", "bridge", "wifi", ...
  std::string parent;             // of a VLAN interface: the netdev below it
  std::string master;             // the bond or bridge that it belongs to
  std::string default_via;        // where the default route over it was read; empty: there is none
  std::string dhcp;               // where DHCP was asked for; empty: it was not
  std::string device_assumed_from;  // the netdev's name, where no file contains the RDMA device's; empty: one does
  std::string no_mesh;              // why it is no NIC of the mesh: "the default route goes over it"; empty: it is one
  std::string no_source;            // where that was read

  /// An entry of the table, once for each index.
  void add_gid(const GidFact& gid);
  /// Takes what the other one has besides its device and netdev.
  void merge(const NicFacts& from);

  std::string name() const { return device.known() ? device.value : netdev.value; }
};

struct GpuFacts {
  Fact<std::string> model;  // as nvidia-smi calls it: "NVIDIA GB10"
  Fact<std::string> pci_address;
};

/// A configuration file puts the interface under a bond or bridge, or a VLAN interface over it.
struct MembershipFact {
  std::string member;  // its name, the file's own name for it, or a pattern of names
  std::string above;   // likewise, without patterns
  std::string source;
};

/// A bond of NICs of the mesh, as a [[node.bond]] has it (infer/fold_uppers.cpp).
struct BondFacts {
  std::string name;                  // its netdev
  std::string source;                // where it was read
  std::vector<std::string> members;  // netdevs; of active-backup the first is active
  Fact<std::string> mode, hash;
  Fact<std::string> device;  // the RDMA device that the members are together
  bool is_lag = false;       // RoCE LAG: they are functions of one card
};

/// An interface or port that a file has, and that becomes no NIC.
struct LeftOut {
  std::string name, reason;  // "eth2", "leads to host:x, ..."
  std::string source;
};

/// One node.
struct HostFacts {
  Fact<std::string> name;
  std::string path;            // of what was read
  std::vector<NicFacts> nics;  // in the order of their first appearance
  std::vector<GpuFacts> gpus;
  std::vector<BondFacts> bonds;
  std::vector<LeftOut> left_out;
  std::vector<MembershipFact> memberships;       // that are not yet in the NICs (settle_names())
  std::map<std::string, std::string> own_names;  // netdevs by what a configuration file calls them: an id, a UUID
  std::map<std::string, PciFacts> pci;           // NICs' functions and bridges by their address
  std::vector<std::pair<std::string, Fact<std::string>>> environment;  // NCCL's variables
  /// Everything else by name: "memlock" (ulimit -l, as text), "kernel", "nvidia", "nvidia_peermem", "mlx5_core",
  /// "rdma-core", "nccl", "firewall" (the rules), "dev-infiniband" (the names there), "acs" (PCI functions with it on).
  std::map<std::string, Fact<std::string>> others;
  std::vector<std::string> read, unread;  // files: those that were understood, those that were not

  /// The NIC with this network interface; made where there is none.
  NicFacts& by_netdev(const std::string& netdev, const std::string& source, Origin origin = Origin::kObserved);
  /// The NIC with this RDMA device; made where there is none.
  NicFacts& by_device(const std::string& device, const std::string& source);
  /// A route over the interface; the default route alone counts.
  void take_route(const std::string& netdev, const std::string& destination, const std::string& gateway,
                  const std::string& source, Origin origin);
  /// The hardware interface with that MAC address, lower case; empty: none is known.
  std::string netdev_with(const std::string& mac) const;
  /// Lists what becomes no NIC, once under each name.
  void leave_out(LeftOut each);
  /// Memberships and parents of VLAN interfaces into the NICs, by the interfaces' names. After all files were read.
  void settle_names();
  /// Joins the two to one NIC.
  NicFacts& join(const std::string& device, const std::string& netdev, const std::string& source);
};

/// A cable that a file names.
struct GivenCable {
  std::string node[2], port[2];
  std::optional<std::uint64_t> rate_bps;
  std::string source;
};

/// A switch that a file names: its ports are those of the cables that end at it.
struct GivenSwitch {
  std::string name;
  std::string source;
};

/// What was read of all machines.
struct Machines {
  std::vector<HostFacts> hosts;
  std::vector<GivenCable> cables;
  std::vector<GivenSwitch> switches;
};

}  // namespace meshbed::testbed::hosts
