#pragma once
// SlotPrograms: the slots of one rank. Pure functions of a workload.
//
//   all_reduce, all_gather   the ring's plans of the engine
//   fused_all_reduce         `parts` tiles: each is computed (COMPUTE, then COPY from its source), and reduced over
//                            separate connections while the next one is computed
//   pipeline                 `parts` micro-batches pass from rank to rank; each stage computes, and adds its own data
//                            to the received data
//   decode                   a token's layers, each computed after the previous one is reduced, then all-reduced over
//                            the same connections; results of all layers are kept
//   moe                      tokens are dispatched to their experts (all-to-all), each expert computes and adds its
//                            own data, and the results go back (all-to-all over other connections)

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/slots.h"
#include "testbed/scenario/megakernel/slot_graph.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct RingProgram {
  coll::SlotProgram slots;
  std::array<std::uint64_t, coll::kSpaces> space_bytes{};
  std::uint64_t count = 0;                   // elements that the caller passes, as the engine counts them
  std::uint64_t result_count = 0;            // elements of this rank's result; 0: it has none
  coll::Space source = coll::Space::kInput;  // where the host puts what the rank contributes
  std::uint64_t source_count = 0;
  std::vector<bool> begins;     // by id: the slot is the first of an operation, which may have a kernel of its own
  std::vector<SlotMark> marks;  // by id: whose it is and when it arrives; empty: all are as a SlotMark is made
};

/// Where a program's slots go in their ring.
struct RingPlaces {
  ring::Word slots = 0;  // of the ring
  bool reuses = false;   // fewer than the program has: a place is used again once its slot is done
  /// With kernel = "priority": where each level begins, and the ring's end.
  std::optional<std::array<ring::Word, ring::kPriorityOffsets>> levels{};
};

/// Slots of a ring that has one for each step, and BATCH_FENCE's.
inline ring::Word ring_slots_whole(const RingProgram& program) {
  return static_cast<ring::Word>(program.slots.slots.size() + 1);
}
/// Slots of a ring: the given number, or one for each slot of its program; 64 without a program (for a queue).
ring::Word ring_slots_of(const Megakernel& settings, const RingProgram* program);
RingPlaces ring_places_of(const Megakernel& settings, const RingProgram& program);

/// A slot as it is published in that epoch, counted from 1 on: connections count their messages on from epoch to epoch.
ring::MeshSlot slot_of_epoch(const coll::SlotProgram& program, ring::Word slot, ring::Word epoch);

/// Its WAITs before all other slots; what each slot needs stays as it is.
void put_waits_first(RingProgram& program);

/// What is wrong with a ring of [workload.megakernel] slots for its program: words for the user; nothing: all is well.
/// A ring with fewer slots than its program uses them again, but on a GPU, and in a level that has none.
std::optional<std::string> ring_slots_problem(const Workload& workload, int ranks);

/// Of a rank: its computes take time / speed.
double speed_of(const Megakernel& settings, int rank);

/// What each ring of a rank is given: its share.
Workload workload_of_ring(const Workload& workload);

/// What one rank runs. kInvalidArgument: sizes that slots cannot name.
Result<RingProgram> ring_program(const Workload& workload, int rank, int ranks);

}  // namespace meshbed::testbed
