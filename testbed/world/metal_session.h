#pragma once
// MetalSession: one rank of something that runs as a process a rank, from the meeting of the ranks to their last word.
//
// Whatever the hardware does, it ends: a watchdog ends the process (kExitNoProgress) when the time limit has passed.

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

/// Ends the process where it does not end by itself: nothing hangs.
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
  /// Sets the node's environment and meets the other ranks. Throws std::runtime_error where that cannot be: ranks that
  /// do not fit the scenario, no rank 0.
  MetalSession(const Scenario& scenario, const MetalPlace& place, double time_limit_s);

  /// Compares `common` among the ranks, then runs `program` on this one. A failure is told to all; what it was, and
  /// whose, as rank 0 has passed it on: empty where all went well.
  std::vector<RankError> run(const nlohmann::json& common, const std::function<Result<void>(MetalHost&)>& program);

  /// How this host's devices are called, where a set-up gave them other names than the scenario.
  const MetalDevices& devices() const { return devices_; }

  /// Since the meeting.
  Picoseconds elapsed_ps() const { return host_->now_ps() - start_ps_; }

 private:
  MetalPlace place_;
  MetalDevices devices_;
  std::set<std::string> points_;  // from which faults count
  Watchdog watchdog_;
  std::unique_ptr<MetalHost> host_;
  Picoseconds start_ps_ = 0;
};

}  // namespace meshbed::testbed
