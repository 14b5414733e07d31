#pragma once
// EmulatedFaults: carries out a scenario's faults on virtual machines, when their ranks have reached a point.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emu/microvm/microvm.h"
#include "testbed/scenario/fault_board.h"

namespace meshbed::testbed {

/// Throws std::runtime_error where the scenario has a fault that only the simulated world carries out. To be asked
/// before machines are started.
void refuse_what_machines_cannot(const Scenario& scenario);

class EmulatedFaults final : private FaultSite {
 public:
  /// All must outlive the object. `folders`: the nodes' job folders, in which their ranks tell
  /// (testbed/world/fault_folder.h).
  EmulatedFaults(const Scenario& scenario, emu::MicroVms& machines, std::vector<std::string> folders);

  /// Takes the steps whose time has come; what they were, for people. To be called again and again while the machines
  /// run. Throws std::runtime_error where a machine refuses.
  std::vector<std::string> serve();
  /// Whether all nodes have ended or are stopped, and no remaining fault continues one.
  bool waits_for_the_stopped() const;
  /// "node1 is stopped (node_stop)", for each stopped node.
  std::vector<std::string> stopped() const;

  /// There is something left to look for.
  bool pending() const { return !awaited_.empty() || !due_.empty(); }

  /// Times since the first point that was reached.
  const std::vector<FaultEvent>& taken() const { return taken_; }

 private:
  struct Due {
    double at_s = 0;  // of the host's clock
    FaultStep step;
  };

  void look_for_points();
  void take(const Due& due);
  void answer(const std::string& point);

  void shape(models::PortRef port, const sim::Shape& shape) override;
  void set_link(models::PortRef port, bool up) override;
  void change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) override;
  void stop(int node) override;
  void go_on(int node) override;
  void kill(int node) override;
  void strangers(std::size_t fault, bool come) override;

  const std::string& name_of(int node) const;
  const std::string& netdev_of(models::PortRef port) const;

  const Scenario& scenario_;
  emu::MicroVms& machines_;
  std::vector<std::string> folders_;
  std::string first_folder_;  // of the node that holds rank 0, which says when a point has come
  FaultBoard board_;
  std::set<std::string> awaited_;  // points
  std::vector<Due> due_;           // by time
  std::vector<FaultEvent> taken_;
  double start_s_ = 0;
  // Changes that stopped nodes cannot carry out; they are carried out when the nodes continue.
  std::map<int, std::vector<std::function<void()>>> later_;
};

}  // namespace meshbed::testbed
