#pragma once
// Network: which port reaches which, over which directed links; link states; what each link carried.
//
// Built from a models::Cluster; owned by the World. A link is one direction of a cable, or one direction between a
// port and its switch. Two ports have a path only if one cable, or one switch, joins them: a cable is a subnet, and
// nothing here routes between subnets.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/units.h"

namespace meshbed::sim {

struct Link {
  std::string name;  // "node0/rocep1s0f0>node1/rocep1s0f1", "node0/rocep1s0f0>switch0"
  std::uint64_t rate_bps = 0;
  bool up = true;
  // What the run's proof reads: bytes that entered and left, and the time during which the link was busy.
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  Picoseconds busy_ps = 0;
};

/// Directed links from one port to another, in order, with the one-way delay that is not serialisation.
struct Path {
  std::vector<int> links;
  Picoseconds latency_ps = 0;
  models::PortRef source, destination;
  int index = 0;  // dense, for tables
};

class Network {
 public:
  explicit Network(const models::Cluster& cluster);

  /// nullptr where no cable or switch joins the two ports. Ignores link states.
  const Path* path(models::PortRef source, models::PortRef destination) const;
  /// Both ports up and every link on the way up.
  bool usable(const Path& path) const;

  /// Physical link of the port: a cable or switch is attached, and both it and the port are up.
  bool port_up(models::PortRef port) const;
  void set_port_up(models::PortRef port, bool up);

  /// The port that owns `address` on the subnet that `from` is cabled to, if it answers there (ARP, neighbour
  /// discovery); {-1,-1} where nobody does.
  models::PortRef neighbour(models::PortRef from, const models::IpAddress& address) const;

  std::vector<Link>& links() { return links_; }
  const std::vector<Link>& links() const { return links_; }
  const std::vector<Path>& paths() const { return paths_; }

 private:
  struct PortState {
    bool attached = false;
    bool up = true;
    std::vector<int> out_paths;  // indices into paths_, sorted by destination
    std::vector<models::PortRef> neighbours;
  };
  const PortState& state(models::PortRef port) const;

  const models::Cluster& cluster_;
  std::vector<Link> links_;
  std::vector<Path> paths_;
  std::vector<std::vector<PortState>> ports_;
};

}  // namespace meshbed::sim
