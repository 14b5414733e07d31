#pragma once
// RingPrograms: the data of one rank's slots (testbed/scenario/megakernel/slot_programs.h), and the expected results:
// the same bits as those of the engine's calls.

#include "testbed/scenario/megakernel/slot_programs.h"
#include "testbed/workload/engine.h"
#include "testbed/workload/megakernel/rank.h"
#include "testbed/workload/pattern.h"

namespace meshbed::testbed {

/// What this rank contributes, by a rule that a result can be checked against, or rough: where sums depend on their
/// order.
void fill_source(const RingProgram& program, const Workload& workload, int rank, int ranks, std::uint32_t salt,
                 bool rough, RingSpaces& spaces);

/// Throws std::runtime_error if the memory that a graph's slots name, of all ranks, is more than this machine has left.
void refuse_graph_too_large(const Workload& workload);

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

}  // namespace meshbed::testbed
