#pragma once
// Planner sweep: every algorithm on many cablings, rails and sizes, beside the engine's choice.

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/bench/planner_cablings.h"
#include "models/algorithm.h"

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

/// Simulates them one by one, and writes a row of the table as each is done; simulated microseconds of one iteration,
/// connections made before. The rows as JSON: cabling, collective, bytes, one member for each algorithm that carries
/// out the collective, auto_us, and `over_best`, of auto to the fastest named algorithm.
nlohmann::json run_planner_sweep(const PlannerSweep& sweep, std::ostream& table);

}  // namespace meshbed::testbed
