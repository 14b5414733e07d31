#pragma once
// The programs whose orders `fuzz --explore` walks on rings: a few slots on one or two ranks, run by plugin/ring's own
// publish (queue/live_steps.h) and step (kernel/step.h). Correct programs must always drain. The others show a defect
// of the ancestor, of a launch that is too wide, of a transport, or of a program, and that defect must be found.
// ring_graph.h makes a program from a slot graph's file.

#include <string>
#include <utility>
#include <vector>

#include "plugin/ring/kernel/mesh_ops.h"

namespace meshbed::testbed {

/// What a host publishes, one after the other.
struct RingItem {
  ring::Word slot = 0;
  ring::Word tenant = 0;
  ring::MeshSlot what;
  std::vector<std::pair<ring::Word, ring::Word>> reads{};  // connection and message whose landing it reads
};

/// The other end of a connection, as it is numbered there.
struct RingEnd {
  int rank = 0;
  ring::Word connection = 0;
};

/// In which order the two writes of a message are seen: see testbed/workload/megakernel/landings.h.
enum class RingOrdering { kOrdered, kUnordered, kCounted };

struct RingExploreProgram {
  std::string name;
  std::string about;
  std::string finds;  // what the walk must find, a part of it; "": nothing, in any order
  ring::Mode mode = ring::Mode::kSafe;
  bool by_priority = false;
  ring::Word slots = 1, lanes = 1;
  ring::Word places = 0;  // for blocks, of which each lane is one; a block that has its place keeps it. 0: for all
  RingOrdering ordering = RingOrdering::kOrdered;
  int masks = 0;             // tenant 1 is masked at any time, and (2) unmasked again
  bool weak = false;         // the host's stores of a slot's words and of its STATUS may be seen in either order
  bool by_turns = false;     // a lane's step goes on to where another rank's could matter: claim, then run and finish
  bool whole_slots = false;  // a slot's words and its STATUS are written at once
  std::vector<std::vector<RingItem>> ranks;
  // By rank and connection; empty: of two ranks connection 0 of each leads to and from the other one.
  std::vector<std::vector<RingEnd>> sends{}, receives{};
};

const std::vector<RingExploreProgram>& ring_explore_programs();

}  // namespace meshbed::testbed
