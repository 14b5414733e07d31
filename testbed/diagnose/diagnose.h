#pragma once
// Diagnose: what went wrong with a job, from what its parts wrote: logs, results, a scenario. Facts with the lines that
// they come from, and causes in order of likelihood with evidence, check and fix.
//
// read/ has a reader for each format, causes/ the table of causes and of the words that point to them, reason.cpp what
// follows from several lines, prove/ the runs that show a cause.

#include <optional>
#include <string>
#include <vector>

#include "testbed/diagnose/evidence.h"
#include "testbed/scenario/findings/findings.h"

namespace meshbed::testbed::diagnose {

/// A run that shows a cause: the fault was put into a scenario, and the run showed what the files show.
struct Proof {
  std::string scenario;              // its path
  std::vector<std::string> changes;  // as --set and --fault take them
  std::string shown;                 // the line of the run's output or results that shows it
  std::string digest;                // of the run; empty: the reader refused the scenario
};

struct FoundCause {
  CauseCode code;
  double likelihood = 0;       // 0 to 1; of several causes each by itself
  std::vector<Sign> evidence;  // the strongest first
  std::optional<Proof> proof;
};

struct Diagnosis {
  std::vector<std::string> inputs;
  std::vector<std::string> formats;
  std::vector<FoundCause> causes;  // the most likely first; empty: none was found
  std::vector<Fact> facts;
};

/// Reads a file or folder into `found`: a log, results, a scenario, or a folder of those. Throws std::runtime_error
/// with the path, the reason and what to do.
void read_input(const std::string& path, Case& found);

/// The same of a scenario's text, for which `path` stands.
void read_scenario_text(const std::string& text, const std::string& path, Case& found);

/// Causes below this likelihood are not reported.
inline constexpr double kLeastLikelihood = 0.2;
/// What follows from all that was read; calls reason().
Diagnosis judge(Case& found);

/// Adds the signs of what lint finds in a scenario: the causes that are visible in a machine's or a cluster's state.
/// `file`: of the scenario or archive.
void causes_of_scenario(const Scenario& scenario, const std::vector<Finding>& findings, const std::string& file,
                        Case& found);
/// The sign of a finding by its code ("crossed-cable"); codes that are no fault add nothing.
void sign_of_finding(const std::string& code, const Line& at, Case& found);

/// {"inputs", "formats", "causes": [{"code", "title", "likelihood", "evidence", "check", "fix", "proven"?}], "facts"}
document::Value json_of(const Diagnosis& diagnosis);
std::string text_of(const Diagnosis& diagnosis);

}  // namespace meshbed::testbed::diagnose
