#pragma once
// Spread: between which values a fitted one lies. Pure and deterministic.
//
// A point says a value: that with which the machine, all else left as it is, would take the measured time. It is found
// from the point's sensitivity, the share by which its time changes for a share of the value (to first order). Only the
// points count whose sensitivity is at least half of the largest. The range holds 90 % of what they say, or all where
// they are fewer than twenty, and 1 % to either side, which the search leaves open.
//
// No range have values that the points show as one sum or product alone, since each could be another one if the other
// moves; and those that no point's time depends on by a twentieth.

#include <vector>

#include "models/fit/calibrate.h"

namespace meshbed::models {

/// Gives the fitted values their ranges (Value::range), within what is plausible at all. `sweeps`: what they were
/// fitted to. Cost: two predictions a point and value.
void add_ranges(const std::vector<Sweep>& sweeps, Calibration* fit);

}  // namespace meshbed::models
