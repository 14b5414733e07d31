#pragma once
// Torus cost: what the algorithm torus takes. Pure.

#include "plugin/coll/plan/algorithm.h"

namespace meshbed::coll {

/// Nanoseconds from the first message on, as cost_ns() has them, of a request with a shape. `lined`: bytes on the wire
/// for each byte of data. Infinite: the cables are known, and are no rings of that shape.
double torus_ns(const PlanRequest& request, const CostModel& model, double lined);

}  // namespace meshbed::coll
