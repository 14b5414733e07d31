#pragma once
// Findings: problems of the machine that a scenario describes, or of its run, as far as they are known before the run.
// `lint`, `topo check`, `topo rules`, `run` and `perf` print the same ones. Pure functions; any thread.
//
// A new check: a line in codes.def, a function of finder.h that adds it, and a case in tests/cli/findings_test.cpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

enum class Severity : std::uint8_t {
  kError,    // a run of the scenario fails: `run` refuses it
  kWarning,  // it runs, but not as described, or slower
  kNote,     // it runs as described; worth knowing
};
/// "error", "warning", "note"
const char* name_of(Severity severity);

enum class FindingCode : std::uint8_t {
#define MESHBED_FINDING(constant, code, severities, meaning) constant,
#include "testbed/scenario/findings/codes.def"
#undef MESHBED_FINDING
};

/// One code as the documentation has it.
struct FindingInfo {
  FindingCode code;
  const char* name;        // "crossed-cable"
  const char* severities;  // "warning", "error, note"
  const char* meaning;
};
std::span<const FindingInfo> finding_infos();
const char* name_of(FindingCode code);
/// The table of all codes as Markdown: part of docs/reference/findings.md.
std::string finding_table();

struct Finding {
  FindingCode code;
  Severity severity;
  std::string place;  // "cable 'node0-node1'", "node0/rocep1s0f0", "environment"
  std::string cause;  // what is wrong, and what follows; without the place, so that equal findings can be folded
  std::string fix;    // empty: nothing to do
  bool operator==(const Finding&) const = default;
};

/// All of a scenario, errors first, then warnings, then notes.
std::vector<Finding> findings_of(const Scenario& scenario);

/// What the reader refuses, as findings.
std::vector<Finding> findings_of(const std::vector<ScenarioProblem>& problems);

/// Equal findings of several places as one.
struct FoldedFinding {
  Finding first;
  std::vector<std::string> places;  // one or more
};
std::vector<FoldedFinding> folded(const std::vector<Finding>& findings);

/// "warning: cable 'node0-node1': CAUSE; FIX [crossed-cable]"; of several places
/// "note: 16 x node0/rocep1s0f0, node0/rocep1s0f1, node1/rocep1s0f0 and 13 others: CAUSE; FIX [narrow-pcie]".
std::string line_of(const FoldedFinding& finding);
/// The lines of all, folded.
std::vector<std::string> finding_lines(const std::vector<Finding>& findings);
std::vector<std::string> finding_lines(const Scenario& scenario);
std::size_t count_of(const std::vector<Finding>& findings, Severity severity);
/// Throws ScenarioError with the errors' lines, each behind the scenario's path, where there are any.
void refuse_errors(const Scenario& scenario, const std::vector<Finding>& findings);

}  // namespace meshbed::testbed
