#pragma once
// Planner sweep: every algorithm on many cablings, rails and sizes, beside the engine's choice.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench/planner_cablings.h"
#include "models/algorithm.h"
#include "testbed/result/document.h"

namespace meshbed::testbed {

struct PlannerSweep {
  std::vector<models::Collective> collectives;
  std::vector<std::uint64_t> sizes_bytes;
  std::vector<PlannerCabling> cablings;
};

bool has_blocks(models::Collective collective);

/// At least so many, of a collective of blocks so many that each rank's has whole lines of 16 bytes, as nccl-tests
/// wants it.
std::uint64_t planner_bytes(const PlannerCabling& cabling, models::Collective collective, std::uint64_t asked_bytes);

/// Simulates them one by one: a row of the table "rows", which `section` gets, for each, and a call of `show` after it.
/// Simulated microseconds of one iteration, connections made before.
void run_planner_sweep(const PlannerSweep& sweep, document::Section& section, const std::function<void()>& show);

}  // namespace meshbed::testbed
