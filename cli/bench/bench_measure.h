#pragma once
// The common part of benchmarks: runs in separate processes, CPU time, and the provenance of figures.
//
// Speed is CPU time (never wall time) and comes with its provenance; nothing here is a test.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// What `body` returns, in a child process of its own: one simulation a process. Throws std::runtime_error with the
/// child's own words where it fails; `name`: of the case, where it dies without any.
nlohmann::json json_of_child(const std::function<nlohmann::json()>& body, const std::string& name);

/// Simulated microseconds of one iteration of the scenario's workload, in a child of its own. Throws as above, and
/// where the run does not end well or a result is wrong.
double simulated_us(const Scenario& scenario, const std::string& name);

/// What figures were measured on, and with.
nlohmann::json bench_provenance();
/// The machine and this program alone, of what loads no file of ranks.
nlohmann::json bench_machine();

/// Of this process, all threads.
double cpu_seconds();

/// Of two in the middle, their mean. There must be values.
double median(std::vector<double> values);

}  // namespace meshbed::testbed
