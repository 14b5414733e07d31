#pragma once
// Cable lists: the cables of each rank, by peer, so that a walk over a mesh takes as many steps as it has cables. Pure.

#include <cstddef>
#include <vector>

#include "plugin/coll/plan/mesh.h"

namespace meshbed::coll {

/// Each cable twice, once from either end: those of a rank from begin[rank] to begin[rank + 1].
struct CableLists {
  std::vector<std::size_t> begin{0};
  std::vector<int> peers, mbps;
  std::vector<std::size_t> back;  // the same cable from its other end
};

CableLists cable_lists(const Mesh& mesh);

}  // namespace meshbed::coll
