#pragma once
// Mesh graphs: the cablings that tests of the mesh walk, and what no all_reduce on them can beat.

#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/mesh.h"

namespace meshbed::test {

/// All cables alike.
inline constexpr int kCableMbps = 1000;

inline std::vector<int> cables_of(int ranks, const std::vector<std::pair<int, int>>& pairs) {
  std::vector<int> cables(static_cast<std::size_t>(ranks * ranks));
  for (const auto& [a, b] : pairs) {
    cables[static_cast<std::size_t>(a * ranks + b)] += kCableMbps;
    cables[static_cast<std::size_t>(b * ranks + a)] += kCableMbps;
  }
  return cables;
}

struct MeshGraph {
  const char* name;
  int ranks;
  std::vector<std::pair<int, int>> pairs;
  std::vector<int> cables() const { return cables_of(ranks, pairs); }
};

inline std::vector<MeshGraph> named_graphs() {
  return {{"triangle", 3, {{0, 1}, {1, 2}, {2, 0}}},
          {"ring4", 4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}},
          {"line4", 4, {{0, 1}, {1, 2}, {2, 3}}},
          {"ring8", 8, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 0}}},
          {"partial5", 5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {1, 3}}},
          {"star5", 5, {{0, 1}, {0, 2}, {0, 3}, {0, 4}}},
          {"dual-rail", 2, {{0, 1}, {0, 1}}}};
}

/// A random tree, and `extra` cables more, some beside others.
inline std::vector<int> random_cables(int ranks, int extra, std::uint64_t seed) {
  std::vector<std::pair<int, int>> pairs;
  auto draw = [&, count = std::uint64_t{0}](int below) mutable {
    return static_cast<int>(mix64(seed * 0x9e3779b97f4a7c15ULL + ++count) % static_cast<std::uint64_t>(below));
  };
  for (int rank = 1; rank < ranks; ++rank) pairs.emplace_back(draw(rank), rank);
  for (int cable = 0; cable < extra && ranks > 1; ++cable) {
    const int a = draw(ranks), b = (a + 1 + draw(ranks - 1)) % ranks;
    pairs.emplace_back(a, b);
  }
  return cables_of(ranks, pairs);
}

/// Mesh's strength, in Mb/s, by trying every way to part the ranks: Bell's number of them.
inline double strength_mbps(int ranks, const std::vector<int>& cables) {
  double least = 1e300;
  std::vector<int> group(static_cast<std::size_t>(ranks));
  const auto part = [&](const auto& self, int rank, int groups) -> void {
    if (rank < ranks) {
      for (int each = 0; each <= groups; ++each) {
        group[static_cast<std::size_t>(rank)] = each;
        self(self, rank + 1, each == groups ? groups + 1 : groups);
      }
      return;
    }
    if (groups < 2) return;
    double between = 0;
    for (int a = 0; a < ranks; ++a) {
      for (int b = a + 1; b < ranks; ++b) {
        if (group[static_cast<std::size_t>(a)] == group[static_cast<std::size_t>(b)]) continue;
        between += cables[static_cast<std::size_t>(a * ranks + b)];
      }
    }
    if (between / (groups - 1) < least) least = between / (groups - 1);
  };
  part(part, 0, 0);
  return least;
}

}  // namespace meshbed::test
