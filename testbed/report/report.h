#pragma once
// Report: a RunResult for people (text) and for programs (summary.json, provenance.json). Seed first, digest last.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "testbed/workload/outcome.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// The steps that were taken, in order: what happened, where, and when in the world's own time.
nlohmann::ordered_json faults_json(const Scenario& scenario, const std::vector<FaultEvent>& taken);

nlohmann::ordered_json errors_json(const std::vector<RankError>& errors);
/// What errors_json() made; throws nlohmann::json::exception for anything else.
std::vector<RankError> errors_from_json(const nlohmann::ordered_json& list);

/// "3 nodes, 6 NICs, 3 cables, 0 switches; 3 ranks"
std::string topology_line(const Scenario& scenario);

/// Everything but the seed line, which is printed before the run; ends with the digest. `results_folder` may be empty.
/// `each_iteration`: with a table of them.
std::string text_report(const Scenario& scenario, const RunResult& result, const std::string& results_folder,
                        bool each_iteration = false);

/// "FAILED: 2 errors, 1 broken promise"; empty where the run did what it promised.
std::string verdict_line(const RunResult& result);

/// The first thing that went wrong, in one line; empty where nothing did.
std::string failure_line(const RunResult& result);

/// What summary.json holds and --json prints.
nlohmann::ordered_json summary(const Scenario& scenario, const RunResult& result);

/// How the result was made: files, hashes, overrides, options. The same for two runs of the same thing.
nlohmann::ordered_json provenance(const Scenario& scenario, const RunResult& result,
                                  const std::vector<std::string>& command_line);

/// 7162345000 ps -> "7.162 ms".
std::string duration_text(Picoseconds time_ps);

}  // namespace meshbed::testbed
