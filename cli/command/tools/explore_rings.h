#pragma once
// The part of `meshbed fuzz --explore` that walks every order of small megakernel rings (testbed/verify/ring_walk.h).

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "testbed/verify/ring_program.h"

namespace meshbed::testbed {

/// A slot graph's file and what its rings are, as the options have them.
struct ExploreGraph {
  std::string path, lanes, places, slots, flag_qp;
  bool masked = false;
};
/// Throws what is wrong with the file or an option.
RingExploreProgram explored_graph_of(const ExploreGraph& wanted);

struct ExploreRings {
  std::shared_ptr<const RingExploreProgram> graph;  // of a file; nullptr: none
  std::vector<const RingExploreProgram*> programs;
  std::uint64_t states_max = 1'000'000;
  bool prints_schedules = false;  // also schedules of expected findings
};

/// Walks them and prints what came of each; kExitBroken where one is not what it promises.
int explore_rings(const ExploreRings& wanted, std::ostream& out);

void list_explored_rings(std::ostream& out);

}  // namespace meshbed::testbed
