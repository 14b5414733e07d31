#pragma once
// Inspector: the calls of a run's ranks, in the format of NCCL's Inspector plugin (plugins/profiler/inspector in
// NVIDIA/nccl, output format v4.2): one JSON object a line, a file a process, first a `dump_stats` line, then one
// `coll_perf` line for each collective, or `p2p_perf` lines for each send and receive. The exporters and scripts beside
// that plugin read it. Verbose event traces have no counterpart here.
//
// coll_msg_size_bytes is the caller's count, as there: one rank's share of an all-gather. Bandwidths are nccl-tests',
// from the exact time; coll_exec_time_us is that time rounded down, and 0 below a microsecond.

#include <iosfwd>
#include <set>
#include <string>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// The lines of one rank that called anything, in the order in which its calls ended, each written before the next is
/// made.
void write_inspector_log(const Scenario& scenario, const RunResult& result, int rank, std::ostream& out);

/// Called before the run. Throws std::runtime_error if FOLDER has an Inspector log that another program wrote: readers
/// of the folder would take it for a log of this run.
void check_inspector_folder(const std::string& folder);

/// The logs of an earlier run of ours in a folder, all of which are to be removed.
class EarlierLogs {
 public:
  explicit EarlierLogs(const std::string& folder);
  /// Keeps `path`, which is a log of this run.
  void replaced(const std::string& path) { left_.erase(path); }
  /// The number of logs removed.
  int remove_others();

 private:
  std::set<std::string> left_;
  int count_ = 0;
};

/// FOLDER/<node>-pid<process>.log for each rank that called anything. They replace all logs of an earlier run of ours:
/// how many there were. Throws std::runtime_error.
int write_inspector_logs(const Scenario& scenario, const RunResult& result, const std::string& folder);

}  // namespace meshbed::testbed
