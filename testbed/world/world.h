#pragma once
// RunWorld: the place where a scenario's ranks run. The simulated world has all of them in this process; on metal this
// process is one of them; the emulated world boots nodes, in which each rank is a separate process (on metal, from its
// view). Commands pass the run and query facts; the worlds are listed in testbed/scenario/kinds/worlds.def.
//
// The worlds exist as long as the program and have no state; any thread may use them.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/trace/recorder.h"
#include "testbed/workload/rank_host.h"
#include "testbed/workload/result.h"
#include "testbed/workload/workload.h"
#include "testbed/world/emulate.h"

namespace meshbed::testbed {

/// What is to be run. A world reads what is for its kind.
struct WorldProgram {
  // Where ranks run in this process:
  RankProgram run_rank = {};
  sim::Recorder* recorder = nullptr;  // sees the messages
  std::string contexts = {};          // what simulated threads run on: see sim::WorldOptions
  bool for_time_line = false;         // keep what links carried when, for a trace of the run; simulated world alone
  // Where each is a process:
  std::function<nlohmann::json()> common = {};              // what all must have in common: see MetalSession::run()
  std::function<nlohmann::json()> findings = {};            // what this rank found out; not set: nothing is gathered
  std::function<void(const nlohmann::json&)> take_in = {};  // at rank 0: what another one did
  bool traced = false;                                      // their messages are gathered for the recorder
  double time_limit_s = 300;
  // Where nodes are booted, each with a command; its time limit is the one above:
  EmulateOptions nodes = {};
};

struct WorldOutcome {
  RunResult result;     // what the world knows; what the program knows of itself is to be added
  Emulation emulation;  // of a world that boots nodes: there, rank 0's process has made the whole result
};

class RunWorld {
 public:
  virtual ~RunWorld() = default;

  virtual WorldFacts facts() const = 0;

  /// Of so many, those that this process runs. Throws std::runtime_error where this process is to be one, and does not
  /// know which.
  virtual RankRange ranks_here(int ranks) const = 0;
  /// Whether this process reports for all ranks.
  bool speaks() const { return ranks_here(0).first == 0; }

  /// Whether ranks run in nodes that are booted for them (by --backend), and none in this process.
  virtual bool boots_nodes() const { return false; }

  /// Throws std::runtime_error where the run cannot be set up.
  virtual WorldOutcome run(const Scenario& scenario, const WorldProgram& program) const = 0;
};

/// "sim", "emu", "metal"; or those alone whose time is real.
std::vector<std::string> world_names(bool real_only = false);
/// The world that --world names; throws std::runtime_error if there is none.
WorldKind parse_world(const std::string& name);
const RunWorld& run_world(WorldKind kind);

}  // namespace meshbed::testbed
