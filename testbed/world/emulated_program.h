#pragma once
// EmulatedProgram: any program, once a rank, in the nodes of a scenario's emulated cluster.
//
// Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in its environment, as torchrun sets them,
// the variables of its node in the scenario, simulated GPUs if the node has any (emulated_gpus.h), and MESHBED_RESULTS,
// a folder whose files are kept after the run if ProgramOptions::results names a place for them. The nodes see the
// host's file system read-only; files written elsewhere are lost.

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emu/cluster.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct ProgramOptions {
  /// The words of the program that rank N runs; the last one is that of all ranks from there on. Not empty.
  std::vector<std::vector<std::string>> programs;
  /// Set for every rank, after the scenario's own variables.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Open MPI's mpirun in the first node starts all ranks, over ssh; `programs` has one then.
  bool mpi = false;
  /// Ranks beyond 0 begin when something in rank 0's node listens on this TCP port: a client that tries once meets its
  /// server. Not with `mpi`.
  std::optional<int> after_port;
  double time_limit_s = 300;       // from when the programs begin; booting comes on top
  int memory_mib = 512;            // a node
  int cpus = 1;                    // a node
  std::uint64_t output_mib = 256;  // what all ranks may write to standard output and standard error
  std::string results;             // where MESHBED_RESULTS of rank N becomes the folder rank-N; empty: nowhere
};

/// What became of one rank. Under mpirun there is one, which stands for all.
struct RankEnd {
  std::string name;  // "rank 0", "mpirun"
  std::string node;
  std::optional<int> status;  // exit status, 128 + signal where one ended it; none: it had not ended
};

struct ProgramRun {
  std::vector<RankEnd> ranks;
  std::vector<std::string> troubles;  // machines that failed, one line each
  bool interrupted = false;
  bool timed_out = false;
  double ready_s = 0, total_s = 0;  // as emu::ClusterOutcome has them

  /// The first status that is not 0, in the order of ranks; what stands for it where there is none.
  int exit_status() const;
};

/// `words` up to ":" each, as mpirun takes several programs: "server : client" is two. Throws std::runtime_error where
/// one of them is empty.
std::vector<std::vector<std::string>> split_programs(const std::vector<std::string>& words);

/// The nodes with what runs in each. `keys`: with mpi, the folder that will have the keys of the ssh server.
/// Throws std::runtime_error for what cannot be: a program that there is not, more programs than ranks; with mpi, a
/// placement that mpirun would not follow, a folder of keys with a blank.
emu::EmuCluster program_cluster(const Scenario& scenario, const ProgramOptions& options, const std::string& keys);

/// Boots the nodes, runs the programs, and hands on what they say, line by line with the rank before it, as it comes.
/// Ten seconds after a rank has failed the others are stopped. Nothing is left running or on disk but
/// ProgramOptions::results. Throws std::runtime_error, one line, where nodes cannot be emulated here.
ProgramRun run_program_in_nodes(const Scenario& scenario, const ProgramOptions& options, std::ostream& out,
                                std::ostream& err);

}  // namespace meshbed::testbed
