#include "models/cut.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plugin/base/check.h"

namespace meshbed::models {
namespace {

bool has(std::uint32_t part, int node) { return (part >> static_cast<unsigned>(node) & 1U) != 0; }

/// Least of `value(cut, nodes in the part)` over all non-empty parts without `root`.
template <typename Value>
double least_of(int nodes, const std::vector<int>& rates, int root, Value value) {
  constexpr int kNodesMost = 24;
  MESHBED_CHECK(nodes > 1 && nodes <= kNodesMost);
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t part = 1; part < 1U << static_cast<unsigned>(nodes); ++part) {
    if (has(part, root)) continue;
    double cut = 0;
    for (int from = 0; from < nodes; ++from) {
      for (int to = 0; to < nodes; ++to) {
        if (!has(part, from) && has(part, to)) cut += rates[static_cast<std::size_t>(from * nodes + to)];
      }
    }
    least = std::min(least, value(cut, std::popcount(part)));
  }
  return least;
}

}  // namespace

double least_cut(int nodes, const std::vector<int>& rates, int root) {
  return least_of(nodes, rates, root, [](double cut, int /*inside*/) { return cut; });
}

double least_cut_per_block(int nodes, const std::vector<int>& rates) {
  return least_of(nodes, rates, 0, [nodes](double cut, int inside) { return cut / std::max(inside, nodes - inside); });
}

}  // namespace meshbed::models
