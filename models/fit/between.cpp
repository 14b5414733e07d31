#include "models/fit/between.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <tuple>
#include <utility>

namespace meshbed::models {
namespace {

/// How far the time of a size that was not measured leaves what the two beside it took, as a logarithm; by a tenth it
/// may. 0 beyond the measured sizes, and where the two are far apart.
double excursion(const Machine& machine, const SizesOfKind& kind, double bytes) {
  constexpr double kFree = 0.095, kFar = 4.5;
  const auto above = kind.times_us.upper_bound(static_cast<std::uint64_t>(bytes));
  if (above == kind.times_us.begin() || above == kind.times_us.end()) return 0;
  const auto below = std::prev(above);
  if (static_cast<double>(above->first) > kFar * static_cast<double>(below->first)) return 0;
  SweepPoint point = kind.point;
  point.call.bytes = static_cast<std::uint64_t>(bytes);
  const double us = fitted_us(machine, point);
  const double low_us = std::min(below->second.first, above->second.first);
  const double high_us = std::max(below->second.second, above->second.second);
  return std::max({0.0, std::log(us / high_us) - kFree, std::log(low_us / us) - kFree});
}

}  // namespace

std::vector<SizesOfKind> sizes_by_kind(const std::vector<Sweep>& sweeps) {
  std::vector<SizesOfKind> all;
  for (const Sweep& sweep : sweeps) {
    std::map<std::tuple<Collective, int, int, bool, bool, int, int, int>, SizesOfKind> kinds;
    for (const SweepPoint& point : sweep.points) {
      if (point.is_message) continue;
      const CollectiveCall& call = point.call;
      SizesOfKind& kind = kinds[{call.collective, call.ranks, call.nodes, call.eager, call.barrier,
                                 call.algorithm ? static_cast<int>(*call.algorithm) : -1,
                                 call.protocol ? static_cast<int>(*call.protocol) : -1, call.iterations}];
      kind.point = point;
      const auto [at, is_new] = kind.times_us.try_emplace(call.bytes, point.time_us, point.time_us);
      if (is_new) continue;
      at->second = {std::min(at->second.first, point.time_us), std::max(at->second.second, point.time_us)};
    }
    for (auto& [key, kind] : kinds) all.push_back(std::move(kind));
  }
  return all;
}

double excursions(const Machine& machine, const std::vector<SizesOfKind>& kinds) {
  double between = 0, at_thresholds = 0;
  std::size_t sizes = 0;
  for (const SizesOfKind& kind : kinds) {
    for (auto below = kind.times_us.begin(); below != kind.times_us.end(); ++below) {
      const auto above = std::next(below);
      if (above == kind.times_us.end()) break;
      ++sizes;
      between +=
          excursion(machine, kind, std::sqrt(static_cast<double>(below->first) * static_cast<double>(above->first)));
    }
    const double ranks = kind.point.call.ranks;
    for (const auto& [threshold, of_share] : {std::pair{MachineParameter::kLlMaxBytes, ranks},
                                              {MachineParameter::kLl128MaxBytes, ranks},
                                              {MachineParameter::kTreeMaxBytes, 1.0}}) {
      at_thresholds += excursion(machine, kind, machine[threshold] * of_share);
    }
  }
  return between / static_cast<double>(std::max<std::size_t>(sizes, 1)) +
         at_thresholds / static_cast<double>(std::max<std::size_t>(kinds.size(), 1));
}

}  // namespace meshbed::models
