#pragma once
// Expect: checks a run against its scenario's [expect]; one line for each expectation, met or not.

#include <map>
#include <optional>
#include <vector>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Checks all fields that are set. If an expected error occurred, expectations about data are not checked. Nor are they
/// if a node that was to be lost has lost its power: then each error must name a node that was lost by then (that node,
/// or one whose rank had ended with an error), and all ranks must have ended. Sets
/// RunResult::expected_error_seen and RunResult::expectations.
void check_expectations(const Scenario& scenario, RunResult& result);

/// The largest relative difference of payload bytes (sent and received) between the cabled NICs of one node that took
/// part, 1 where one of them carried nothing; nullopt where no such node has two.
std::optional<double> rail_imbalance(const models::Cluster& cluster,
                                     const std::map<sim::PairKey, sim::PairUsage>& pairs);

/// Whether one cable, or one switch, joins a NIC of the one node with a NIC of the other.
bool directly_joined(const models::Cluster& cluster, int left, int right);

}  // namespace meshbed::testbed
