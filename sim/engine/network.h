#pragma once
// Network: which port reaches which, over which directed links; link states; what each link carried.
//
// Built from a models::Cluster; owned by the World. A link is one direction of a cable, or one direction between a
// port and its switch, or a switch and a router; or one direction of a PCIe link, where that carries less than the
// ports behind it together (a wider one limits nothing, and is left out), and likewise of a QSFP port that functions
// share (models/lan/qsfp.h). Two ports have a path only if one cable, one
// switch, or the sending port's router (models/lan/router.h) joins them. A cable is a subnet; only routers lead from
// one to another. Of ports with VLAN interfaces, whose addresses are there, those answer that have the same VLAN.
//
// The functions of a RoCE LAG (models/lan/bond.h) are ports with links of their own, and a device together, whose port
// is the first one's: wire(), link_up() and joined() are about ports; path(), port_up(), neighbour() and routed() about
// devices.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "models/lan/trunks.h"
#include "plugin/base/units.h"
#include "sim/engine/bonds.h"
#include "sim/engine/link_load.h"

namespace meshbed::sim {

struct Link {
  // "node0/rocep1s0f0>node1/rocep1s0f1", "node0/rocep1s0f0>switch0"; out of node0 and into it: "node0/pcie0>",
  // ">node0/pcie0"
  std::string name;
  std::uint64_t rate_bps = 0;
  std::uint64_t shaped_bps = 0;  // rate_bps, or what a Shape leaves of it; to be changed by Fabric::set_rate() alone
  // What the run's proof reads: bytes that entered and left, and the time during which the link was busy.
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_under_way = 0;  // of transfers that have begun and not ended
  Picoseconds busy_ps = 0;
  // Into a receiver's side: the largest sum of the senders' port rates at one time, if nothing had held them back.
  // Above rate_bps: a lossless network is assumed (link_usage.h).
  std::uint64_t offered_bps = 0;
  LinkLoad load{};  // WorldOptions::keep_link_load
};

/// What a port does to the packets that it sends, as tc-netem(8) on its interface would. All 0: nothing.
/// What an adapter does with peers' requests: kAccess and kNotReady end them at the sender with status 10 and 13.
enum class Refusal : std::uint8_t { kNone, kAccess, kNotReady };

struct Shape {
  double loss = 0;     // fraction of the packets that are never seen again
  double reorder = 0;  // fraction of the packets that go ahead of those before them
  Picoseconds delay_ps = 0;
  std::uint64_t rate_bps = 0;  // the port sends no faster; 0: as fast as its link
  Refusal refusal = Refusal::kNone;
  bool operator==(const Shape&) const = default;
};

/// Directed links from one port to another, in order, with the one-way delay that is not serialisation.
struct Path {
  std::vector<int> links = {};
  Picoseconds latency_ps = 0;
  models::PortRef source, destination;
  int index = 0;                // dense, for tables
  std::size_t sent = 1;         // of `links`: those on the sender's side, which carry what its own ports can
  std::uint32_t mtu_bytes = 0;  // a switch on the way drops frames with more payload (models/lan/frame.h); 0: none does
};

class Network {
 public:
  /// `cluster` must outlive the network.
  explicit Network(const models::Cluster& cluster);

  /// nullptr where no cable, switch or router joins the two ports (or they are one). Ignores link states. The pointer
  /// stays valid as long as the network. O(1) after the first call for a pair.
  /// `flow` selects among the trunks of a switched network of several boxes.
  const Path* wire(models::PortRef source, models::PortRef destination, std::uint64_t flow = 0) const;
  /// The same between devices: over the function that a bond sends the flow by now, and the one at which the cable or
  /// the switch delivers it.
  const Path* path(models::PortRef source, models::PortRef destination, std::uint64_t flow = 0) const;
  /// Both ports are up.
  bool usable(const Path& path) const { return state(path.source).up && state(path.destination).up; }

  /// Physical link of the port: a cable or switch is attached, the port is up, and at a cable the other end is too.
  bool link_up(models::PortRef port) const;
  /// Of the device: any of its functions' links.
  bool port_up(models::PortRef device) const;
  void set_port_up(models::PortRef port, bool up);

  const Shape& shape(models::PortRef port) const { return state(port).shape; }
  /// Loss, order and delay, for what is sent from now on; the rate is the fabric's (Fabric::set_rate).
  void set_shape(models::PortRef port, const Shape& shape) { state(port).shape = shape; }
  /// The port's own directed link; -1: it has no cable.
  int link_out(models::PortRef port) const { return state(port).link_out; }
  /// The directed link from its switch to the port; -1: it has none.
  int link_from_switch(models::PortRef port) const { return state(port).cable < 0 ? state(port).link_in : -1; }
  /// The links between the port's node and its cable's middle, or its switch: all that it sends and gets goes over, in
  /// order.
  std::vector<int> way_out(models::PortRef port) const;
  std::vector<int> way_in(models::PortRef port) const;

  /// The device whose function `port` is.
  models::PortRef device(models::PortRef port) const;
  /// See Bonds::look().
  std::optional<Bonds::Change> look_at_bond(models::PortRef port);

  /// The port that owns `address` on the subnet that `from` is cabled to, if it answers there (ARP, neighbour
  /// discovery); {-1,-1} if none does.
  models::PortRef neighbour(models::PortRef from, const models::IpAddress& address) const;
  /// The port behind the router of `from` that owns `address`, up or down, if packets reach the router. {-1,-1} if
  /// `from` has no route there, or no port has the address.
  models::PortRef routed(models::PortRef from, const models::IpAddress& address) const;
  /// All ports that one cable or switch joins with `from`, `from` itself not included; in order of node and NIC.
  std::vector<models::PortRef> neighbours(models::PortRef from) const;
  /// The ports that one cable or switch joins with this port, itself not included; in order of node and NIC.
  std::vector<models::PortRef> joined(models::PortRef port) const;
  /// The devices have their addresses in one VLAN, or both in none.
  bool same_vlan(models::PortRef left, models::PortRef right) const;

  std::vector<Link>& links() { return links_; }
  const std::vector<Link>& links() const { return links_; }
  /// The paths that were asked for so far.
  const std::deque<Path>& paths() const { return paths_; }

 private:
  struct PortState {
    bool up = true;
    Shape shape;
    int cable = -1;         // index in Cluster::cables, or
    int switch_index = -1;  // index in Cluster::switches
    int box = -1;           // of it; -1: it is one box
    int link_out = -1, link_in = -1;
    int pcie_out = -1, pcie_in = -1;        // -1: no PCIe link limits it
    int qsfp_out = -1, qsfp_in = -1;        // -1: its QSFP port limits it no more than its own link does
    models::PortRef peer;                   // the other end of the cable
    std::vector<models::PortRef> far = {};  // of a wire that functions share: all at its other end, `peer` among them
  };
  const PortState& state(models::PortRef port) const {
    return ports_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }
  PortState& state(models::PortRef port) {
    return ports_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }
  int add_link(std::string name, std::uint64_t rate_bps);
  void add_shared();
  /// The cable of `port` ends at `other`, or the wire that it shares does.
  bool wire_leads(models::PortRef port, models::PortRef other) const;
  void add_routers();
  void add_trunks();
  /// The links between two boxes of a switched network, and how long the way through it takes beyond its ends' cables.
  struct TrunkWay {
    std::vector<int> links;
    Picoseconds latency_ps = 0;
  };
  TrunkWay trunk_way(const PortState& from, const PortState& to, std::uint64_t flow) const;
  /// The router of `from`, where it joins the switches of both ports and these differ; -1: none.
  int router_between(models::PortRef from, models::PortRef to) const;
  const models::Nic& nic(models::PortRef port) const { return cluster_.nic_of(port); }
  bool owns(models::PortRef port, const models::IpAddress& address) const;
  /// neighbour(), asked over one port.
  models::PortRef answering(models::PortRef port, const models::IpAddress& address) const;

  /// The links between a router and one of its switches.
  struct RouterPort {
    int switch_index = -1;
    int to_router = -1, from_router = -1;
  };
  const RouterPort& router_port(int router, int switch_index) const;

  /// Two ports, and the flow where boxes have a choice of trunks.
  struct PairKey {
    models::PortRef source, destination;
    std::uint64_t flow = 0;
    bool operator==(const PairKey&) const = default;
    std::uint64_t hash() const;
  };
  struct PairHash {
    std::size_t operator()(const PairKey& key) const { return key.hash(); }
  };
  /// Of a switched network of several boxes.
  struct Trunks {
    models::TrunkRoutes routes;
    std::vector<std::pair<int, int>> links;  // [trunk] from its end a to b, and back
  };
  const models::Cluster& cluster_;
  std::vector<Link> links_;
  std::vector<std::vector<RouterPort>> router_ports_;  // [router]
  mutable std::map<int, Trunks> trunks_;               // by switch
  std::vector<std::vector<PortState>> ports_;
  mutable std::deque<Path> paths_;
  mutable std::unordered_map<PairKey, const Path*, PairHash> path_cache_;
  std::optional<Bonds> bonds_;  // once there are links to look at
};

/// "node0/rocep1s0f0"
std::string port_name(const models::Cluster& cluster, models::PortRef port);

}  // namespace meshbed::sim
