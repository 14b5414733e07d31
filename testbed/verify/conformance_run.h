#pragma once
// The cases of one version of the table on this rank, one after the other, in any world.

#include <functional>

#include "testbed/verify/conformance.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

struct VersionRun {
  const ConformancePlan& plan;
  int version = 0;
  std::size_t first_case = 0;  // in the order of conformance_cases()
  // Called at rank 0:
  std::function<void(std::size_t index)> begun;
  std::function<void(std::size_t index, const CaseOutcome& outcome)> ended;
  std::function<void()> absent;  // the file has no such table
};

/// An error: the plugin does not load or does not initialise; no case was run.
Result<void> run_version(RankHost& host, const VersionRun& run);

}  // namespace meshbed::testbed
