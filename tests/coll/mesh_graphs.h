#pragma once
// Mesh graphs: the cablings that tests of the mesh walk.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/mesh.h"

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

/// `cable_mbps`: [rank * ranks + rank], the same both ways.
inline coll::Mesh make_mesh(int ranks, const std::vector<int>& cable_mbps, std::vector<int> rank_mbps = {}) {
  return coll::make_mesh(ranks, coll::cables_of_matrix(ranks, cable_mbps), std::move(rank_mbps));
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

}  // namespace meshbed::test
