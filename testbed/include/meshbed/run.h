#pragma once
// meshbed::run(): runs a scenario in virtual time.
//
// Each run is a separate process (meshbed-run, installed beside the library): SimGrid allows one simulation a process,
// and the program's own threads, signal handlers and libraries are not affected. So runs may be started from any
// thread, any number at one time, and leave nothing behind in the program.

#include <functional>
#include <stdexcept>
#include <string>

#include "meshbed/result.h"
#include "meshbed/scenario.h"

namespace meshbed {

/// A run that could not take place or was cut off: a missing file, a killed process. A run that took place and went
/// wrong is a RunResult.
class MESHBED_API RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~RunError() override;
};

/// on_progress returned false, or the time limit passed.
class MESHBED_API RunCancelled : public RunError {
 public:
  using RunError::RunError;
  ~RunCancelled() override;
};

struct RunProgress {
  int done = 0, total = 0;  // iterations or cases; total 0: not known yet
};

struct RunOptions {
  bool messages = true;     // keep the columns of RunResult::messages(), about 110 bytes a message
  double time_limit_s = 0;  // of a clock on the wall; 0: none
  /// Called about ten times a second on the caller's thread while the run is under way; false ends the run.
  std::function<bool(const RunProgress&)> on_progress = {};
};

/// Runs `scenario` in the simulated world. Throws InvalidScenario where a check finds an error, RunError or
/// RunCancelled. An exception of on_progress ends the run and passes through.
MESHBED_API RunResult run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace meshbed
