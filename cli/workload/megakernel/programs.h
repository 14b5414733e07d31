#pragma once
// RingPrograms: what the slots of one rank do, and what must come out: the same bits as of the engine's calls.
//
//   all_reduce, all_gather   the ring's plans, as the engine has them
//   fused_all_reduce         `parts` tiles: each is computed (COMPUTE, then COPY from where it was made), and summed up
//                            over connections of its own while the next one is computed
//   pipeline                 `parts` micro-batches go from rank to rank; each stage computes, and adds its own to what
//                            came
//   decode                   a token's layers, each computed once the one before is summed up, then all-reduced over
//                            the same connections; results of all layers are kept
//   moe                      tokens are dispatched to their experts (all-to-all), each expert computes and adds its
//                            own, and what it made goes back (all-to-all over other connections)

#include "cli/workload/engine.h"
#include "cli/workload/megakernel/rank.h"
#include "cli/workload/pattern.h"

namespace meshbed::cli {

struct RingProgram {
  coll::SlotProgram slots;
  std::array<std::uint64_t, coll::kSpaces> space_bytes{};
  std::uint64_t count = 0;                   // elements that the caller passes, as the engine counts them
  std::uint64_t result_count = 0;            // elements of this rank's result; 0: it has none
  coll::Space source = coll::Space::kInput;  // where the host puts what the rank contributes
  std::uint64_t source_count = 0;
  std::vector<bool> begins;  // by slot: it is the first of an operation, which may have a kernel of its own
};

/// Slots that its ring has at least: each step's, and BATCH_FENCE's.
inline ring::Word ring_slots_least(const RingProgram& program) {
  return static_cast<ring::Word>(program.slots.slots.size() + 1);
}
/// Slots of a ring: as many as are asked for, or the least that its program needs; without one (a queue's) 64.
ring::Word ring_slots_of(const Megakernel& settings, const RingProgram* program);

/// A slot as it is published in that epoch, counted from 1 on: connections count their messages on from epoch to epoch.
ring::MeshSlot slot_of_epoch(const coll::SlotProgram& program, ring::Word slot, ring::Word epoch);

/// Its WAITs before all other slots; what each slot needs stays as it is.
void put_waits_first(RingProgram& program);

/// What is wrong with a ring of [workload.megakernel] slots for its program: words for the user; nothing: all is well.
std::optional<std::string> ring_slots_problem(const Workload& workload, int ranks);

/// What each ring of a rank is given: its share.
Workload workload_of_ring(const Workload& workload);

/// What one rank runs. kInvalidArgument: sizes that slots cannot name.
Result<RingProgram> ring_program(const Workload& workload, int rank, int ranks);

/// What this rank contributes, by a rule that a result can be checked against, or rough: where sums depend on their
/// order.
void fill_source(const RingProgram& program, const Workload& workload, int rank, int ranks, std::uint32_t salt,
                 bool rough, RingSpaces& spaces);

struct RingCheck {
  std::uint64_t checked = 0, wrong = 0;
  std::string first_wrong;
};
/// Of a run that was not rough; nothing is checked where the serial result has no rule (moe).
RingCheck check_pattern(const RingProgram& program, const Workload& workload, int rank, int ranks, std::uint32_t salt,
                        const RingSpaces& spaces);

/// Whether ranks add up in rank order, which no algorithm of the engine does.
bool adds_in_rank_order(const Workload& workload);
/// The serial result of that on rough data of this salt.
std::vector<std::byte> rank_order_result(const RingProgram& program, const Workload& workload, int ranks,
                                         std::uint32_t salt);

/// The engine's own result of the same, on the same rank's source: all ranks call it.
Result<std::vector<std::byte>> engine_result(Engine& engine, const RingProgram& program, const Workload& workload,
                                             int ranks, RingSpaces& spaces);

}  // namespace meshbed::cli
