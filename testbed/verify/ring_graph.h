#pragma once
// RingGraph: a slot graph's file as a program for ring_walk.h, which explores all orders.

#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/verify/ring_program.h"

namespace meshbed::testbed {

struct RingGraphOptions {
  ring::Word lanes = 2;
  ring::Word slots = 0;           // of the ring; 0: one for each of the program's
  ring::Word places = 0;          // for blocks; 0: for all
  bool other_flag_queue = false;  // flags go over another queue pair than their data
  int masks = 0;                  // tenant 1 is masked at any time, and (2) unmasked again
};

/// Slots are the plain kernel's: levels and arrivals do not count, since every order comes. kInvalidArgument: more
/// ranks or slots than can be walked.
Result<RingExploreProgram> explored_graph(const SlotGraph& graph, const RingGraphOptions& options);

}  // namespace meshbed::testbed
