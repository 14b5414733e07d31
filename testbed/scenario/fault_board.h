#pragma once
// FaultBoard: a scenario's [[fault]] entries as steps to be taken, the same for every world.
//
// Nomenclature: point - a moment in the ranks' program from which a fault's `at` counts ("start", "iteration
// 3"); step - a fault's beginning or its end; site - what a world can do to itself. The board knows what is
// in force and tells the site what follows from it: faults on one target add up (a cable is out until the last that
// took it out has ended, or a cable_up has ended them all), and a port has a link only while both ends of its cable are
// in.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/base/units.h"
#include "sim/engine/network.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

// --- fault points: what RankHost::reach() is called with ---
inline constexpr const char* kPointStart = "start";  // before anything else
/// Before a timed iteration, from 0: "iteration 3".
std::string iteration_point(int iteration);
/// Of one fault.
std::string point_of(const Fault& fault);
/// From which any fault counts. A rank need not say that it has reached another.
std::set<std::string> points_of(const Scenario& scenario);

/// netem needs a delay to let some packets overtake others; what a reorder fault without one gets.
inline constexpr Picoseconds kReorderDelay_ps = kPicosecondsPerMillisecond;

/// What a world does. Calls come only where something changes.
class FaultSite {
 public:
  virtual ~FaultSite() = default;
  virtual void shape(models::PortRef port, const sim::Shape& shape) = 0;
  /// The port's carrier.
  virtual void set_link(models::PortRef port, bool up) = 0;
  /// Of the port's interface, in one subnet.
  virtual void change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) = 0;
  virtual void stop(int node) = 0;
  virtual void go_on(int node) = 0;
  virtual void kill(int node) = 0;
  /// They come, or go again.
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

/// The beginnings that the run did not live to see.
std::vector<FaultStep> not_taken(const Scenario& scenario, const std::vector<FaultEvent>& taken);

/// The same for people, a line each: "meshbed: fault not reached: ...\n".
std::string not_taken_lines(const Scenario& scenario, const std::vector<FaultEvent>& taken);
/// On real machines no fault is carried out: one line with that; empty without faults.
std::string left_to_hands_line(const Scenario& scenario);

/// What can be pulled out: one cable between two QSFP ports, or between one and a switch. The functions of a QSFP port
/// have one cable (models/lan/qsfp.h).
struct CableLink {
  // "node0-node1", of several functions the first cable's; of a switch "node0-switch0", or "node0/rocep1s0f0-switch0"
  // where the node has several QSFP ports there.
  std::string name;
  std::vector<models::PortRef> ports;  // all that lose their link
  std::string box;                     // the switch; empty: none
};
/// Cables first, then the links to each switch.
std::vector<CableLink> links_of(const models::Cluster& cluster);
/// The ports of a link to a switch, by links_of()'s name or "NODE/DEVICE-SWITCH" of any of them; empty: `name` is none.
std::vector<models::PortRef> switch_link(const models::Cluster& cluster, const std::string& name);

/// A cable's or a switch link's ends, a switch's or a node's ports, the one port, or those of a RoCE LAG's device.
std::vector<models::PortRef> ports_of(const models::Cluster& cluster, const Fault& fault);

/// "cable_down on cable0", "end of loss 0.01 on node0/rocep1s0f0"
std::string text_of(const Scenario& scenario, const FaultStep& step);

class FaultBoard {
 public:
  /// `scenario` must outlive the board.
  explicit FaultBoard(const Scenario& scenario);

  /// Of the faults that count from `point`, by time; what comes first in the scenario comes first.
  std::vector<FaultStep> steps_from(const std::string& point) const;
  /// Takes one step at the site.
  void take(const FaultStep& step, FaultSite& site);

 private:
  struct Port {
    models::PortRef peer;  // of its cable; {-1, -1}: none
    int cable = -1, switch_index = -1;
    bool up = true;        // but for port_down; false: it began with link = "down", and no port_up has come
    bool carrier = false;  // as last set at the site
    std::vector<models::IpPrefix> addresses;  // as the site was told, in the order of the scenario's
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
  /// The same name, or two cables of one wire.
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
  std::vector<bool> stopped_;             // by node, as the site was told
  std::vector<bool> killed_;              // by node
  std::vector<int> wires_;                // [cable] the first one of its wire
};

}  // namespace meshbed::testbed
