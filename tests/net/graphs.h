#pragma once
// Cablings as graphs, for tests: nodes numbered along the cables.

#include "plugin/net/process/mesh_graph.h"

namespace meshbed::test {

inline net::MeshGraph line_graph(int nodes) {
  net::MeshGraph graph(nodes);
  for (int node = 1; node < nodes; ++node) graph.join(node - 1, node);
  return graph;
}

inline net::MeshGraph ring_graph(int nodes) {
  net::MeshGraph graph = line_graph(nodes);
  if (nodes > 2) graph.join(nodes - 1, 0);
  return graph;
}

/// Node 0 is the hub.
inline net::MeshGraph star_graph(int nodes) {
  net::MeshGraph graph(nodes);
  for (int node = 1; node < nodes; ++node) graph.join(0, node);
  return graph;
}

/// scenarios/partial5.toml: a line with a shortcut.
inline net::MeshGraph partial5_graph() {
  net::MeshGraph graph = line_graph(5);
  graph.join(1, 3);
  return graph;
}

inline net::MeshGraph full_graph(int nodes) {
  net::MeshGraph graph(nodes);
  for (int left = 0; left < nodes; ++left) {
    for (int right = 0; right < left; ++right) graph.join(left, right);
  }
  return graph;
}

}  // namespace meshbed::test
