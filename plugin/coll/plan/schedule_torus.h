#pragma once
// The algorithm torus: its transfers, and in which pieces they move. Internal to plan.

#include <cstdint>

#include "plugin/coll/plan/schedule.h"

namespace meshbed::coll {

/// Elements of the largest chunk of a channel's first rings; of blocks, of a block.
std::uint64_t torus_chunk(const PlanRequest& request);
/// So many pieces each of these chunks is moved in.
int torus_pieces(const PlanRequest& request);
/// Appends a round of the algorithm torus.
void list_torus(Schedule& schedule);

}  // namespace meshbed::coll
