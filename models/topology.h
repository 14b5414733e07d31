#pragma once
// Topology: which nodes reach each other without a relay, and the shape of the result. Pure functions of a Cluster.
//
// Nomenclature: segment - the ports that reach one another directly: they are on one cable or switch, their links are
// up, and they share a subnet and a VLAN (or have none). A cable whose ends share no subnet carries no segment: that is
// a crossed cable. Routed segment - the ports that reach one another over one router (lan/router.h), but for those on
// one switch, which need none. A path over a router is a direct path, for no other node has a part in it. Neighbours -
// nodes with ports in one segment. Hop - a step from a node to a neighbour. A bond's standby functions carry nothing
// here. Functions of a RoCE LAG (lan/bond.h) are in their device's subnet: a segment of its own for each on a cable,
// the device's port for all of them on a switch. Link-local IPv6 is not counted: it is on every cable and does not
// identify the other end (but see link_local_peers()).

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "models/pcie.h"

namespace meshbed::models {

struct Segment {
  int cable = -1;              // index in Cluster::cables, or -1
  int switch_index = -1;       // index in Cluster::switches, or -1
  IpPrefix subnet;             // of a cable's end a (the two lengths may differ), of a switch's first port
  std::vector<PortRef> ports;  // ascending
  // [place in ports] what the port carries there: the cable's rate (which follows from its two ends unless the scenario
  // gives it), or the lower of the switch's (0: any) and the port's own; no more than its PCIe link.
  std::vector<std::uint64_t> port_rates_bps;
  std::uint16_t vlan = 0;               // of its ports; 0: of none
  int router = -1;                      // index in Cluster::routers, or -1; then also
  std::vector<int> port_switches = {};  // [place in ports] the switch between the port and the router
};

/// A way from one node to another without a relay.
struct DirectPath {
  PortRef from, to;
  int segment = -1;            // index in Topology::segments
  std::uint64_t rate_bps = 0;  // of the slower port
};

/// A cable whose two ends share no subnet: each end's address belongs to another cable, or is mistyped; or they share
/// one, and neither end takes the other's frames, since their VLANs differ.
struct CrossedCable {
  int cable = -1;
  std::string a_subnets, b_subnets;  // as subnet_string; "no address" where there is none
  /// The first two addresses whose subnets overlap, with prefix lengths of which one is wrong: only one end finds the
  /// other in its own. Empty: none do.
  std::string a_overlapping, b_overlapping;
  bool is_wrong_prefix() const { return !a_overlapping.empty(); }
  std::uint16_t a_vlan = 0, b_vlan = 0;
  bool is_other_vlan() const { return a_vlan != b_vlan; }
};

struct Topology {
  std::vector<Segment> segments;
  std::vector<std::vector<int>> segments_of_node;  // [node] -> indices of segments, ascending
  std::vector<CrossedCable> crossed;
  std::vector<SharedLink> shared_links;  // by node and link
};

/// For a port without an address: those on its cable or switch, of other nodes, that have none either. Each of two such
/// ports reaches the other by its link-local GID.
std::vector<PortRef> link_local_peers(const Cluster& cluster, PortRef port);

/// O(ports). The other functions take its answer together with the number of nodes that it holds.
Topology analyse(const Cluster& cluster);

/// Every direct path between two nodes, in order of (segment, from's NIC, to's NIC).
std::vector<DirectPath> direct_paths(const Topology& topology, int from, int to);

/// Whether there is one. O(segments of the two nodes).
bool has_direct_path(const Topology& topology, int from, int to);

/// What `paths`, all from one node to one other, carry together: no more than the PCIe links behind them at either end.
std::uint64_t joint_rate_bps(const Topology& topology, const std::vector<DirectPath>& paths);

/// The node's neighbours, ascending, without itself.
std::vector<int> neighbours(const Topology& topology, int node);

/// Hops from `from` to every node by relaying, or one over a router, on which no chain of relays goes on; -1 where
/// there is no way.
std::vector<int> hop_counts(const Topology& topology, int from);

/// Nodes of a shortest relay path, both ends included, or the two ends that a router joins; empty where there is none.
/// Lower node indices win ties.
std::vector<int> shortest_path(const Topology& topology, int from, int to);

/// How many pairs of nodes have no direct path, and the first `limit` of them in order.
struct MissingPairs {
  std::uint64_t count = 0;
  std::vector<std::pair<int, int>> first;
};
MissingPairs pairs_without_direct_path(const Topology& topology, std::size_t limit);

/// What the neighbour graph looks like. Several can hold: a triangle is a full mesh and a ring, a pair also a line.
struct Shape {
  bool connected = false;
  bool full_mesh = false;
  bool ring = false;  // one cycle through all nodes; two triangles side by side are none
  bool line = false;
  bool star = false;  // one hub, and leaves that only know the hub; three nodes or more
  /// Lengths of a torus of two dimensions or more whose nodes are numbered along the first, then the second, ... ;
  /// empty for all else. Not looked for where one of the above holds.
  std::vector<int> torus;
};
Shape classify(const Topology& topology);
/// "full mesh, ring", "line", "torus 3x3", "partial", "disconnected", "one node", ...
std::string describe(const Shape& shape, std::size_t nodes);

}  // namespace meshbed::models
