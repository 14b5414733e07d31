#pragma once
// The common part of benchmarks: runs in separate processes, CPU time, and the provenance of figures.
//
// Speed is CPU time (never wall time) and comes with its provenance; nothing here is a test.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/result/document.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// What `body` returns, in a child process of its own: one simulation a process. Throws std::runtime_error with the
/// child's own words where it fails; `name`: of the case, where it dies without any.
nlohmann::json json_of_child(const std::function<nlohmann::json()>& body, const std::string& name);

/// Simulated microseconds of one iteration of the scenario's workload, in a child of its own. Throws as above, and
/// where the run does not end well or a result is wrong.
double simulated_us(const Scenario& scenario, const std::string& name);

/// The same of a replay of the engine's plan (docs/scale.md), without the plugin.
double replayed_us(const Scenario& scenario, const std::string& name);

/// "provenance": what figures were measured on, and with which files of ranks.
document::Section bench_provenance();
/// The same of the machine and this program alone, for what loads no file of ranks.
document::Section bench_machine();

/// A benchmark's document: a section with "benchmark", which has this name.
document::Document bench_document(const std::string& name);

/// Of this process, all threads.
double cpu_seconds();

/// Of two in the middle, their mean. There must be values.
double median(std::vector<double> values);

}  // namespace meshbed::testbed
