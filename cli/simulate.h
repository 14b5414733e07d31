#pragma once
// Simulate: runs one program on every rank of a scenario's cluster in virtual time, and hands back what happened.
//
// One simulation a process (SimGrid allows one engine).

#include <string>
#include <vector>

#include "cli/fault_board.h"
#include "cli/files.h"
#include "cli/rank_host.h"
#include "cli/scenario.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/host/host.h"
#include "sim/trace/recorder.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::cli {

struct RankError {
  int rank = 0;
  Picoseconds at_ps = 0;
  std::string text;
  std::string error_class;  // class_of() the error: the same in every world where the same goes wrong
};

/// What is wrong with the ranks of a node that lost its power, in every world.
std::vector<RankError> without_power(const Scenario& scenario, int node, Picoseconds at_ps);

/// A thread waited for the other ranks.
struct BarrierWait {
  int rank = 0;
  std::uint32_t thread_id = 0;  // as the rank's own gettid() says it
  Picoseconds start_ps = 0, end_ps = 0;
};

/// A rank took GPU memory, or gave some back.
struct GpuMemoryChange {
  int rank = 0;
  Picoseconds at_ps = 0;
  std::uint64_t taken_bytes = 0, given_back_bytes = 0;
  std::uint64_t held_bytes = 0;  // by the rank, after it
};

struct Simulation {
  sim::Outcome outcome;
  std::vector<RankError> errors;  // in the order in which they happened
  int stopped = 0;                // ranks that ended in the middle of something only because another one had failed
  std::vector<sim::Link> links;
  std::vector<sim::Path> paths;  // those that were used
  Picoseconds elapsed_ps = 0;    // simulated, from the start to the end of the last rank
  sim::VerbsCounters verbs;
  sim::HostCounters host;
  std::vector<std::uint32_t> process_ids;   // by rank, as its own getpid() says it
  std::vector<BarrierWait> waits;           // as they ended
  std::vector<GpuMemoryChange> gpu_memory;  // in order
  std::vector<FaultEvent> faults;           // the steps that were taken, in order
  std::string plugin_sha256;                // of the net plugin as the ranks loaded it; empty where nobody did
  std::string engine_sha256;                // of libmeshcoll.so likewise
  /// By rank, of a run that did not end well: what the rank's net plugin said of itself when the first error came, or
  /// when nothing could happen any more (plugin/net/state.h, JSON). Empty where it has none.
  std::vector<std::string> states;

  /// Every rank came to its end, and none with an error.
  bool ended_well() const { return errors.empty() && outcome.kind == sim::OutcomeKind::kFinished; }
};

struct SimulateOptions {
  BuiltFiles files;
  std::string contexts;  // what threads run on: see sim::WorldOptions
};

/// The net plugin that the scenario's ranks use: its own file, or the project's.
std::string net_plugin_of(const Scenario& scenario, const BuiltFiles& files);
int ranks_of(const Scenario& scenario);
/// The node that holds `rank`: ranks are placed in blocks of workload.ranks_per_node.
int node_of(const Scenario& scenario, int rank);

/// The fabric that a run uses: what the scenario says, "chunk" for auto.
const char* fabric_name(const Scenario& scenario);

/// Throws std::runtime_error where the simulation cannot be set up (a missing library).
Simulation simulate(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    const RankProgram& program);

}  // namespace meshbed::cli
