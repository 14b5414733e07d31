#pragma once
// Between: what a fit makes of sizes that lie between measured ones, where it could hide any peak. Pure.
//
// Rule: a size's time is between those of the two measured beside it, or a tenth beyond, where these are no more than
// 4.5 times apart. It is asked half way between each two, and where a threshold of the machine changes the way of a
// call, since there the time is furthest from both. Cost: (sizes + kinds) * the model's.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/fit/sweep.h"

namespace meshbed::models {

/// The measured sizes of one kind of call, and the least and the most time of each.
struct SizesOfKind {
  SweepPoint point;  // of any size
  std::map<std::uint64_t, std::pair<double, double>> times_us;
};

/// Of collectives alone: of messages the model has no thresholds.
std::vector<SizesOfKind> sizes_by_kind(const std::vector<Sweep>& sweeps);

/// How far the machine's times leave the rule, as a logarithm: the mean over sizes, and that over kinds at thresholds.
double excursions(const Machine& machine, const std::vector<SizesOfKind>& kinds);

}  // namespace meshbed::models
