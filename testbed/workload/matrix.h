#pragma once
// Matrix: a thinned set of all supported operations of the engine: collective x element type x reduction x algorithm x
// protocol x size x in or out of place. Pure: every rank and every world draws the same cases from the same seed.

#include <cstdint>
#include <string>
#include <vector>

#include "testbed/workload/collective.h"

namespace meshbed::testbed {

struct MatrixCase {
  CollectiveCase collective;  // one iteration; its count is set
  std::string algorithm, protocol;

  /// "all_reduce of 1009 half, avg, mesh, ll128, in place"; a root or a shift where there is one.
  std::string text() const;
};

/// `cases` of them, as many of each collective while there are any left, no two alike; fewer where there are no more.
/// Sizes: no element, one, an odd number, a prime, and what fits into `largest_bytes`. Only algorithms that do the
/// collective. In order of algorithm and protocol, which are a communicator's.
std::vector<MatrixCase> matrix_cases(std::uint64_t seed, int cases, int ranks, std::uint64_t largest_bytes);

/// Whether the bits of its result hang on the order in which ranks' numbers met.
bool rounds(const CollectiveCase& wanted);

}  // namespace meshbed::testbed
