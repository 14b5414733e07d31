#pragma once
// SimulatedFaults: carries out a scenario's faults in the simulated world, at their simulated times.

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/engine/world.h"
#include "sim/fault/strangers.h"
#include "testbed/scenario/fault_board.h"

namespace meshbed::testbed {

class SimulatedFaults final : private FaultSite {
 public:
  /// All must outlive the world's run.
  SimulatedFaults(const Scenario& scenario, sim::World& world, std::function<void(int node)> on_kill);

  /// For a simulated thread of any rank; all ranks are at the point. Returns when the steps that are due at once have
  /// been taken.
  void reach(const std::string& point);

  const std::vector<FaultEvent>& taken() const { return taken_; }

 private:
  struct Due {
    SimulatedFaults* faults;
    FaultStep step;
  };
  static void step_due(void* due, std::uint64_t);
  static void waiters_due(void* faults, std::uint64_t);

  void shape(models::PortRef port, const sim::Shape& shape) override;
  void set_link(models::PortRef port, bool up) override;
  void change_address(models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) override;
  void stop(int node) override;
  void go_on(int node) override;
  void kill(int node) override;
  void strangers(std::size_t fault, bool come) override;

  const Scenario& scenario_;
  sim::World& world_;
  FaultBoard board_;
  std::set<std::string> reached_, answered_;  // points
  std::deque<Due> due_;
  std::vector<sim::Thread*> waiting_;  // for the steps that are due at once
  std::vector<FaultEvent> taken_;
  std::function<void(int)> on_kill_;
  std::map<std::size_t, sim::Strangers> strangers_;  // by fault
};

}  // namespace meshbed::testbed
