#pragma once
// `meshbed conformance PLUGIN.so`: checks whether a net plugin keeps the rules that NCCL relies on, for every version
// of the table in the file, in virtual time, in virtual machines or over real devices.

#include <iosfwd>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// What came of one case on one version of the table.
struct CaseOutcome {
  int version = 0;
  std::string name;
  std::string rule;
  std::string finding;        // empty: nothing broke the rule
  std::string not_looked_at;  // why there was nothing here to try the rule on; empty: there was
  std::int64_t time_ns = 0;   // of rank 0's clock
  bool is_broken() const { return !finding.empty(); }
  bool is_kept() const { return finding.empty() && not_looked_at.empty(); }
};

/// What came of all that was asked.
struct ConformanceFindings {
  std::vector<CaseOutcome> outcomes;
  std::vector<int> absent;  // versions that the file does not have
  std::string trouble;      // why no case could be run, or not all
  bool no_progress = false;
};

/// The conformance run of a plugin.
struct ConformancePlan {
  std::string plugin;             // absolute path
  std::vector<int> versions;      // those to be tested
  std::vector<std::string> only;  // names of cases; empty: all
};

/// In virtual time: a child process a version, and another one after a case that takes its process with it, so that
/// such a case costs only itself. A child is given up after `limit_s` of wall time.
ConformanceFindings simulate_conformance(const ConformancePlan& plan, const Scenario& scenario,
                                         const std::string& contexts, double limit_s);

}  // namespace meshbed::testbed
