#pragma once
// Walks all orders of the actions of a RingWorld: breadth first over its states, so that the first path to a finding is
// the shortest. A state that several orders reach is continued once; states are stored completely, not only by their
// hash. Cost: memory and time by states, not by orders.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "testbed/verify/ring_program.h"

namespace meshbed::testbed {

struct RingWalkReport {
  std::uint64_t states = 0, steps = 0;  // steps: ways from a state to another one
  double orders = 0;                    // to an end or a finding; infinity: some never end
  std::uint64_t ends = 0;               // states in which nothing can be done any more
  std::size_t longest = 0;              // steps to the state that is farthest from the start
  bool whole = true;                    // false: states_max came first
  std::string finding;                  // of the shortest way to one; empty: there is none
  std::vector<std::string> schedule;    // that way, step by step
};

RingWalkReport walk_rings(const RingExploreProgram& program, std::uint64_t states_max = 1'000'000);

/// Empty where the report is what the program promises; else what is not.
std::string broken_promise(const RingExploreProgram& program, const RingWalkReport& report);

}  // namespace meshbed::testbed
