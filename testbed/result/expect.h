#pragma once
// Expect: holds a run against its scenario's [expect]; one line for each promise, kept or not.

#include <map>
#include <optional>
#include <vector>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Checks all fields that are set. An expected error that was seen satisfies the run: the promises about data are then
/// not asked; likewise where a node that was to be lost has lost its power: each error must name somebody who was gone
/// by then (the node, or one whose rank had ended with an error), and all must have ended. Sets
/// RunResult::expected_error_seen and RunResult::expectations.
void check_expectations(const Scenario& scenario, RunResult& result);

/// The largest relative difference of payload bytes (sent and received) between the cabled NICs of one node that took
/// part, 1 where one of them carried nothing; nullopt where no such node has two.
std::optional<double> rail_imbalance(const models::Cluster& cluster,
                                     const std::map<sim::PairKey, sim::PairUsage>& pairs);

/// True where one cable, or one switch, joins a NIC of the one node with a NIC of the other.
bool directly_joined(const models::Cluster& cluster, int left, int right);

}  // namespace meshbed::testbed
