#pragma once
// Emulate: a scenario's run in the emulated world: one small virtual machine a node, or all nodes in this host's
// kernel, each running `meshbed run --world metal` over the real rdma-core and the kernel's soft-RoCE.

#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "emu/cluster.h"
#include "emu/outcome.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

struct EmulateOptions {
  std::vector<std::string>
      command;                   // what every rank runs: `meshbed` with these words; its place is in its environment
  std::uint64_t rank_bytes = 0;  // the buffers of a rank
  double time_limit_s = 300;     // of the command; booting comes on top
  std::string backend = "auto";  // "microvm", "namespaces"; auto: namespaces where `meshbed emu up` has set them up
  std::function<void(const std::string& line)> say;  // progress, one line each
  /// Sees rank 0's folder, where its command started, before it is removed.
  std::function<void(const std::string& folder)> collect;
  std::string reports = {};  // gets the plugin's reports of all nodes (keep_job_reports()); empty: they are not kept
};

struct Emulation {
  int exit_code = kExitBroken;        // rank 0's, or what stands for a run that never came to its end
  std::string report;                 // what rank 0 printed
  std::vector<RankError> errors;      // of ranks beyond 0, and of those whose node lost its power
  std::vector<std::string> waiters;   // nodes that stay stopped; empty: the run ended by itself
  std::vector<std::string> troubles;  // nodes that failed, timed out or were interrupted; output of ranks other than 0
  std::vector<FaultEvent> faults;     // the executed steps, in order
  nlohmann::ordered_json machines;    // backend, times, memory: for summary.json
  std::string machines_text;          // the same as a line: "3 virtual machines (tcg): ready after 5.1 s, ..."
  bool interrupted = false;
};

/// The cluster in the emulator's terms, with the commands that run on each node.
/// Throws std::runtime_error where the scenario has what the emulator cannot be given.
emu::EmuCluster emulated_cluster(const Scenario& scenario, const EmulateOptions& options);

/// What the ranks left in their nodes' folders and said, into the result; of the report and the exit code, what rank 0
/// did, on whichever node it is. `outcome`: of the scenario's emulated_cluster(). `followed`: what rank 0 said on
/// standard error has been passed on already.
void collect(const Scenario& scenario, const EmulateOptions& options, const emu::ClusterOutcome& outcome, bool followed,
             Emulation& result);

/// A line of progress on standard error, at once.
std::function<void(const std::string& line)> say_on(std::ostream& err);

/// Says on standard error what the run has left to say: troubles, then the faults that it did not come to
/// (not_taken_lines()). False where it was interrupted.
bool tell_troubles(const Emulation& emulation, const std::string& not_taken, std::ostream& err);

/// Boots, runs, collects. SIGINT and SIGTERM end it early; nothing is left running. Throws std::runtime_error, one
/// line, where nodes cannot be emulated here.
Emulation emulate(const Scenario& scenario, const EmulateOptions& options);

}  // namespace meshbed::testbed
