#pragma once
// MetalSession: one rank of a run with one process per rank, from the rendezvous of the ranks to their last report.
//
// It always ends: a watchdog ends the process (kExitNoProgress) when the time limit has passed.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <thread>

#include "testbed/base/exit_status.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/result.h"
#include "testbed/world/metal_devices.h"
#include "testbed/world/metal_host.h"

namespace meshbed::testbed {

/// Ends a process that does not end by itself.
class Watchdog {
 public:
  Watchdog(int rank, double limit_s);
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// What ranks of a scenario must have in common; a difference would show as a hang or as wrong data.
nlohmann::json common_ground(const Scenario& scenario, const BuiltFiles& files);

/// The proof that ranks agreed on it.
sim::Proof one_plugin_file(const Simulation& simulation);

class MetalSession {
 public:
  /// Sets the node's environment and meets the other ranks. Throws std::runtime_error if that fails: the ranks do
  /// not match the scenario, or rank 0 does not answer.
  MetalSession(const Scenario& scenario, const MetalPlace& place, double time_limit_s);

  /// Compares `common` among the ranks, then runs `program` on this one. A failure is sent to all ranks. Returns
  /// the failures as rank 0 has passed them on; empty on success.
  std::vector<RankError> run(const nlohmann::json& common, const std::function<Result<void>(MetalHost&)>& program);

  /// The names of this host's devices, if its set-up has other names than the scenario.
  const MetalDevices& devices() const { return devices_; }

  /// Since the meeting.
  Picoseconds elapsed_ps() const { return host_->now_ps() - start_ps_; }

 private:
  MetalPlace place_;
  MetalDevices devices_;
  std::set<std::string> points_;  // from which the times of faults are counted
  Watchdog watchdog_;
  std::unique_ptr<MetalHost> host_;
  Picoseconds start_ps_ = 0;
};

}  // namespace meshbed::testbed
