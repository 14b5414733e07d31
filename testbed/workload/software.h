#pragma once
// The cost of software by a scenario's profile ([models] of the file): models/time/software.h for the calls that
// workloads make. All costs are zero with the profile "ideal".

#include "models/time/software.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/collective.h"

namespace meshbed::testbed {

/// The call as the models know it: the class's own choice of protocol and algorithm, unless the scenario says one.
/// Nothing where all ranks are on one node: no run has the links within one.
std::optional<models::CollectiveCall> modelled_call(const Scenario& scenario, const CollectiveCase& wanted);

/// The same case with what each rank spends before each call, and of each message.
CollectiveCase with_software(const Scenario& scenario, CollectiveCase wanted);

/// Of messages that no collective is known of; a call is one launch.
models::SoftwareCost message_cost(const Scenario& scenario);

/// The cluster with what the class reaches of its NICs' rates; of the simulated world alone.
models::Cluster reached_cluster(const Scenario& scenario);

/// The cluster with rates that no run exceeds: a PCIe link's rate in the file is what a usual protocol gets of its
/// bits, and a class that was measured may get more of them.
models::Cluster bounding_cluster(const Scenario& scenario);

}  // namespace meshbed::testbed
