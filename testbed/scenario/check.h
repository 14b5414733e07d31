#pragma once
// Checks across fields: that names, addresses, subnets and the workload fit together.

#include "testbed/scenario/build.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// Names and sizes: no nodes, too many, two devices of one name, a NIC on two cables.
void check_cluster(const Built& built, Diagnostics& diagnostics);
/// Duplicate addresses and overlapping prefixes. Two ends of one cable in different subnets are accepted: modelling a
/// wrong subnet is what Meshbed is for, and `meshbed lint` reports it.
void check_addresses(const Built& built, const ScenarioSpec& spec, Diagnostics& diagnostics);
/// Fills in scenario.rank_nodes, from a workload and a cluster that are there already; place_ranks.cpp.
void place_ranks(const ScenarioSpec& spec, Scenario& scenario, Diagnostics& diagnostics);
/// Workload, faults and promises against the cluster. `scenario` is complete but for its own check.
void check_run(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics);
/// Of check_run: one [[fault]]; check_faults.cpp.
void check_fault(const Scenario& scenario, const FaultSpec& said, Diagnostics& diagnostics);
/// Of check_run: what a [workload.megakernel] must make sense of; megakernel/check.cpp.
void check_megakernel(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics);

}  // namespace meshbed::testbed
