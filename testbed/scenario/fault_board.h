#pragma once
// FaultBoard: a scenario's [[fault]] entries as steps to be taken, the same for every world.
//
// Nomenclature: point - a moment in the ranks' program from which a fault's `at` counts ("start", "iteration
// 3"); step - a fault's beginning or its end; site - the operations by which a world carries out faults. The board
// keeps the faults in force and applies their combined effect to the site. Faults on one target add up: a cable is out
// until every cable_down on it has ended, or a cable_up has ended them all. A port has a link only while both ends of
// its cable are plugged in.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/base/units.h"
#include "sim/engine/network.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

// --- fault points: the arguments of RankHost::reach() ---
inline constexpr const char* kPointStart = "start";  // before anything else
/// Before a timed iteration, from 0: "iteration 3".
std::string iteration_point(int iteration);
/// The point of one fault.
std::string point_of(const Fault& fault);
/// All points that faults count from. Ranks need not report others.
std::set<std::string> points_of(const Scenario& scenario);

/// The delay of a reorder fault without one: netem needs a delay to let some packets overtake others.
inline constexpr Picoseconds kReorderDelay_ps = kPicosecondsPerMillisecond;

/// How a world carries out faults. Called only for changes.
class FaultSite {
 public:
  virtual ~FaultSite() = default;
  virtual void shape(models::PortRef port, const sim::Shape& shape) = 0;
  /// The port's carrier.
  virtual void set_link(models::PortRef port, bool up) = 0;
  /// Replaces the address of the port's interface in one subnet.
  virtual void change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) = 0;
  virtual void stop(int node) = 0;
  virtual void go_on(int node) = 0;
  virtual void kill(int node) = 0;
  /// Unrelated clients begin to connect (strangers), or stop.
  virtual void strangers(std::size_t fault, bool come) = 0;
};

struct FaultStep {
  std::size_t fault = 0;  // index in Scenario::faults
  bool begins = true;
  Picoseconds after_ps = 0;  // after the fault's point

  bool operator==(const FaultStep&) const = default;
};

/// A step that was taken.
struct FaultEvent {
  FaultStep step;
  Picoseconds at_ps = 0;  // since the run's start, in the world's own time
};

/// The faults that had not begun when the run ended.
std::vector<FaultStep> not_taken(const Scenario& scenario, const std::vector<FaultEvent>& taken);

/// The same as text, a line each: "meshbed: fault not reached: ...\n".
std::string not_taken_lines(const Scenario& scenario, const std::vector<FaultEvent>& taken);
/// For real machines: a line which states that faults are not carried out there; empty without faults.
std::string left_to_hands_line(const Scenario& scenario);

/// A link that can be unplugged: one cable between two QSFP ports, or between a QSFP port and a switch. The functions
/// of a QSFP port share one cable (models/lan/qsfp.h).
struct CableLink {
  // "node0-node1" (with several functions, the first cable's); for a switch "node0-switch0", or
  // "node0/rocep1s0f0-switch0" if the node has several QSFP ports on it.
  std::string name;
  std::vector<models::PortRef> ports;  // the ports that lose their link
  std::string box;                     // the switch; empty: none
};
/// Cables first, then the links to each switch.
std::vector<CableLink> links_of(const models::Cluster& cluster);
/// The ports of a link to a switch, by links_of()'s name or "NODE/DEVICE-SWITCH" of any of them; empty: there is no
/// such link.
std::vector<models::PortRef> switch_link(const models::Cluster& cluster, const std::string& name);

/// A cable's or a switch link's ends, a switch's or a node's ports, the one port, or those of a RoCE LAG's device.
std::vector<models::PortRef> ports_of(const models::Cluster& cluster, const Fault& fault);

/// "cable_down on cable0", "end of loss 0.01 on node0/rocep1s0f0"
std::string text_of(const Scenario& scenario, const FaultStep& step);

class FaultBoard {
 public:
  /// `scenario` must outlive the board.
  explicit FaultBoard(const Scenario& scenario);

  /// Steps of the faults that count from `point`, by time, then by their order in the scenario.
  std::vector<FaultStep> steps_from(const std::string& point) const;
  /// Applies one step to the site.
  void take(const FaultStep& step, FaultSite& site);

 private:
  struct Port {
    models::PortRef peer;  // of its cable; {-1, -1}: none
    int cable = -1, switch_index = -1;
    bool up = true;        // without port_down faults; false: it began with link = "down", and no port_up has begun
    bool carrier = false;  // as last applied to the site
    std::vector<models::IpPrefix> addresses;  // as last applied to the site, in the scenario's order
    sim::Shape shape;
  };
  const Port& port(models::PortRef port) const {
    return ports_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }
  Port& port(models::PortRef port) {
    return ports_[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }
  bool holds(FaultKind kind, const std::string& target) const;
  bool is_pulled(const std::string& cable) const;
  /// Whether the names are equal, or name two cables of one wire.
  bool is_same_target(const std::string& one, const std::string& other) const;
  void end_all(FaultKind kind, const std::string& target);
  bool slows(const Fault& fault, models::PortRef port, const std::vector<models::PortRef>& targets) const;
  sim::Shape shape_of(models::PortRef port) const;
  bool is_down(models::PortRef port) const;
  void bring_up(const std::vector<models::PortRef>& ports);
  bool own_end_up(models::PortRef port);
  bool carrier_of(models::PortRef port);
  void tell_nodes(FaultSite& site);
  void tell_shapes(FaultSite& site);
  models::IpPrefix address_of(models::PortRef port, const models::IpPrefix& own) const;
  void tell_links(FaultSite& site);
  void tell_addresses(FaultSite& site);

  const Scenario& scenario_;
  std::vector<std::vector<Port>> ports_;                 // by node and NIC
  std::vector<bool> in_force_;                           // by fault
  std::vector<std::vector<models::PortRef>> held_down_;  // by fault: what a port_down in force keeps down
  std::vector<std::size_t> readdressed_;  // address_change faults in force, in the order in which they began
  std::vector<bool> stopped_;             // by node, as last applied to the site
  std::vector<bool> killed_;              // by node
  std::vector<int> wires_;                // [cable] the first one of its wire
};

}  // namespace meshbed::testbed
