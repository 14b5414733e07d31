#pragma once
// A scenario's collective by replay.detail = plugin, with any of the engine's algorithms: the engine's own plans on a
// model of the net plugin's connections (planned_replay.h).

#include <string>
#include <vector>

#include "models/algorithm.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/torus_shape.h"
#include "sim/replay/replay.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// What the engine plans with, and the algorithm and protocol that it chooses.
struct PlannedWork {
  PlannedWork() = default;
  PlannedWork(const PlannedWork&) = delete;
  PlannedWork& operator=(const PlannedWork&) = delete;

  coll::Mesh mesh;
  coll::TorusShape torus;
  coll::RootTrees root_trees;
  coll::PlanRequest plan;  // points to both
  coll::AlgorithmProtocol way;
};

/// As every rank's engine would with this scenario's options. Throws ScenarioError for a tuning table with an error.
void plan_work(const Scenario& scenario, models::Collective collective, coll::DataType type, PlannedWork* work);

/// `trace`: gets each message of the measured iteration in order of posting. `arrivals`: as PlannedRequest's. Throws
/// ScenarioError with what detail plugin does not do, or limits.time where it takes longer.
RunResult run_planned(const Scenario& scenario, const PlannedWork& work,
                      std::vector<sim::ReplayRecord>* trace = nullptr, const std::vector<int>& arrivals = {});

/// What the plugin's messages depend on beyond what detail plugin knows: throws ScenarioError.
void check_plugin_detail(const Scenario& scenario, models::Collective collective);

}  // namespace meshbed::testbed
