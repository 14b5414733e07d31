#pragma once
// What the engine and the net plugin do for one collective, at scales where neither fits: the engine's own channel runs
// (plugin/coll/run), made of its own plans for every rank, on a model of the plugin's connections (planned_net.h).
// There are no data, no threads, no processes and no plugin.
//
// A rank's channel runs move as its progress thread moves them (plugin/coll/run/executor.cpp): round and round, until
// the second empty look at a completion queue. Within one instant, what happens on the network comes before what ranks
// do, and ranks go on in the order in which they were woken, as in a run. All iterations are simulated, and the last
// one is measured: from when all ranks begin until the last one has ended.
//
// A rank's connections are made in its first iteration of a run, at times that a replay does not have: there all ranks
// begin at once, in order.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/topology.h"
#include "plugin/base/result.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "plugin/coll/plan/plan.h"
#include "sim/engine/network.h"
#include "sim/replay/replay.h"
#include "testbed/world/replay/planned_net.h"
#include "testbed/world/replay/planned_runs.h"

namespace meshbed::testbed {

struct PlannedRequest {
  const models::Cluster* cluster = nullptr;  // rank r is alone on node r
  coll::PlanRequest plan;                    // as Communicator's; of each rank and channel in turn
  coll::AlgorithmProtocol way;
  PlannedDevices devices;
  int iterations = 2;  // the measured one included
  bool in_place = false;
  /// The order in which ranks come to the measured iteration; empty: in which they ended the one before.
  std::vector<int> arrivals = {};
  std::vector<sim::ReplayRecord>* trace = nullptr;  // gets each message of the measured iteration, as posted
  sim::ReplayProgress on_progress = nullptr;
  Picoseconds give_up_ps = 0;  // nothing is simulated beyond this time; 0: no limit
};

struct PlannedOutcome {
  Picoseconds time_ps = 0;
  PlannedTotals totals;
  std::uint64_t planned_bytes = 0;  // that all channel runs of an iteration sent, and that they received
  std::uint64_t received_bytes = 0;
  std::uint64_t connections = 0, under_way = 0;
  std::uint64_t events = 0;
  bool gave_up = false;
  Picoseconds end_ps = 0;        // of all iterations
  std::vector<sim::Link> links;  // with what they carried
};

/// An error names two ranks that exchange messages and that nothing joins (the plugin would relay), or a router, or
/// several ports of one switch; or what a rank waits for that never happens.
Result<PlannedOutcome> replay_plan(const PlannedRequest& request);

}  // namespace meshbed::testbed
