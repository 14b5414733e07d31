#pragma once
// The programs whose interleavings are explored: the calls of two ranks to a net plugin between init and finalize, as
// NCCL makes them in normal operation, when a communicator is aborted, and when one end is faster than the other.

#include <vector>

#include "testbed/verify/explore_rank.h"

namespace meshbed::testbed {

struct ExploredProgram {
  const char* name;
  const char* about;
  void (*body)(ExploredRank& rank);  // finalize comes after it
  // See interleaver.h; so that the walk takes seconds:
  int interruptions;
  int late;
  bool striped = false;  // its messages go over both cables at once
};

const std::vector<ExploredProgram>& explored_programs();

}  // namespace meshbed::testbed
