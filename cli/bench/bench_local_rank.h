#pragma once
// One rank of bench local's jobs: the same all-reduces by the engine over the local net plugin, or by Open MPI, in a
// process that mpirun has started.

#include <cstdint>
#include <iosfwd>
#include <string>

namespace meshbed::testbed {

struct LocalRankOptions {
  std::string by;  // "engine" or "mpi"
  std::uint64_t bytes = 0;
  int iterations = 0;
  std::string algorithm;  // the engine's
};

/// Prints a line for each iteration, after a first one that is not timed: "iteration I BEGIN END", nanoseconds on this
/// machine's CLOCK_MONOTONIC; then "wrong N", elements of the last result. Throws std::runtime_error.
void run_local_rank(const LocalRankOptions& options, std::ostream& out);

}  // namespace meshbed::testbed
