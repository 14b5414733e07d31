#pragma once
// Outcome: the outcome of a run's ranks, in every world: their errors, their waits, the counters of the network and of
// the libraries. testbed/workload/result.h derives the verdict from it.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct RankError {
  int rank = 0;
  Picoseconds at_ps = 0;
  std::string text;
  std::string error_class;  // class_of() the error: equal in every world for the same failure
  std::string
      repeatable{};  // the text without parts that differ between runs, such as addresses; empty: the text itself
};

/// The errors of the ranks of a node that lost its power, in every world.
std::vector<RankError> without_power(const Scenario& scenario, int node, Picoseconds at_ps);

/// A thread's wait for the other ranks.
struct BarrierWait {
  int rank = 0;
  std::uint32_t thread_id = 0;  // as returned by the rank's own gettid()
  Picoseconds start_ps = 0, end_ps = 0;
};

/// A rank's allocation or release of GPU memory.
struct GpuMemoryChange {
  int rank = 0;
  Picoseconds at_ps = 0;
  std::uint64_t taken_bytes = 0, given_back_bytes = 0;
  std::uint64_t held_bytes = 0;  // by the rank, after it
};

/// Work on a GPU's stream for a rank, or a CUDA call.
struct GpuSpan {
  int rank = 0;
  bool is_call = false;
  std::string track;  // "GPU 0, stream 3", "CUDA calls"
  std::string name;   // of a kernel, demangled; "copy host to device"
  Picoseconds start_ps = 0, end_ps = 0;
  std::string grid;         // of a kernel: "108x1x1 blocks of 256x1x1"
  std::uint64_t bytes = 0;  // of a copy or fill
};

/// A program's call of NCCL: sim/host/load/nccl_calls.h.
struct NcclCallSpan {
  int rank = 0;
  std::string name;                       // "ncclAllReduce"
  std::uint64_t thread = 0;               // of its process, from 1
  Picoseconds start_ps = 0, end_ps = -1;  // -1: it did not return
  std::uint64_t count = 0, bytes = 0;     // of elements; 0: the call has none
  std::string datatype;                   // "float"; empty likewise
  int peer = -1;                          // or the root; -1: the call has none
};

/// How NCCL executes an operation of a size, as its profiler announces it (plugin/profiler).
struct NcclDecision {
  std::string operation, datatype;  // "AllReduce", "Send"; "float"
  std::uint64_t bytes = 0;          // nccl-tests' `size`
  int ranks = 0;                    // of the communicator
  std::string algorithm, protocol;  // "RING", "LL128"; empty: of messages between two ranks
  int channels = 0;                 // 0: not announced, like algorithm and protocol; otherwise at least 1
  std::uint64_t calls = 0;          // of the rank with the most
  bool is_announced() const { return channels > 0; }
};

/// The libnccl.so.2 that a program's ranks loaded.
struct LoadedNccl {
  std::string file;  // empty: no rank loaded one
  std::string version, sha256;
  std::vector<NcclDecision> decisions{};  // if the profiler plugin was loaded; in order of first occurrence
};

struct Simulation {
  sim::Outcome outcome;
  std::vector<RankError> errors;  // in the order in which they happened
  int stopped = 0;                // ranks that ended during their work only because another one had failed
  std::vector<sim::Link> links;
  std::vector<sim::Path> paths;  // those that were used
  Picoseconds elapsed_ps = 0;    // simulated, from the start to the last rank's end
  sim::VerbsCounters verbs;
  sim::HostCounters host;
  std::vector<std::uint32_t> process_ids;   // by rank, as returned by its own getpid()
  std::vector<BarrierWait> waits;           // as they ended
  std::vector<GpuMemoryChange> gpu_memory;  // in order
  std::vector<GpuSpan> gpu_spans;           // if requested (WorldProgram::for_time_line), as they ended
  std::vector<NcclCallSpan> nccl_calls;     // likewise, as they began
  std::vector<FaultEvent> faults;           // the executed steps, in order
  std::string plugin_sha256;                // of the net plugin that the ranks loaded; empty if none did
  std::string engine_sha256;                // of libmeshcoll.so likewise
  LoadedNccl nccl;
  /// By rank, if the run failed: the state that the rank's net plugin reported when the first error occurred, or when
  /// no event was left (plugin/net/process/state.h, JSON). Empty for plugins without a state.
  std::vector<std::string> states;

  /// Whether every rank ended, and none with an error.
  bool ended_well() const { return errors.empty() && outcome.kind == sim::OutcomeKind::kFinished; }
};

}  // namespace meshbed::testbed
