#pragma once
// The engine's channel runs of one rank, as Communicator makes them (plugin/coll/run/communicator_run.cpp and
// communicator_schedule.cpp), on a PlannedNet's connections and without memory.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "models/cluster.h"
#include "models/topology.h"
#include "plugin/base/result.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/coll/run/channel_run.h"
#include "testbed/world/replay/planned_net.h"

namespace meshbed::testbed {

struct PlannedRun {
  std::unique_ptr<coll::ChannelRun> run;
  std::uint64_t copy_bytes = 0;  // from the rank's input to its output, of which it copies a bit in each pass
};

/// The net plugin's device that a rank's channel opens.
struct PlannedDevice {
  int index = 0, nic = 0;
};
using PlannedDevices = std::function<PlannedDevice(int rank, int channel)>;

class PlannedRuns {
 public:
  /// `devices`: asked where several cables join two ranks.
  PlannedRuns(const models::Cluster& cluster, PlannedNet& net, PlannedDevices devices);

  /// Of `request.rank`, on all channels. An error names two ranks that exchange messages and that nothing joins, or
  /// a router, or several ports of one switch.
  Result<std::vector<PlannedRun>> make(coll::PlanRequest request, coll::AlgorithmProtocol way, bool in_place);
  std::uint64_t connections() const { return connections_; }

 private:
  Result<PlannedWay> way_of(int from, int to, int channel) const;
  Result<PlannedNet::Connection*> connection(int from, int to, const coll::PlanRequest& request, int way);
  Result<void> add_plan(const coll::PlanRequest& request, std::vector<PlannedRun>& runs);
  Result<void> add_schedule(coll::Algorithm algorithm, const coll::PlanRequest& request, std::vector<PlannedRun>& runs);

  const models::Cluster& cluster_;
  const models::Topology topology_;
  PlannedNet& net_;
  const PlannedDevices devices_;
  std::uint64_t connections_ = 0;
};

}  // namespace meshbed::testbed
