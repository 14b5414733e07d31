#pragma once
// Graphs: works that were recorded instead of done, to be done as often as one likes.

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/cuda/work.h"

namespace meshbed::sim::cuda {

struct GraphNode {
  Task task;
  std::vector<std::size_t> before{};  // indices of nodes that must end first
  int memory = 0;                     // 1: here its memory begins, 2: here it ends; the task is a marker then
};
struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
};
struct GraphExec {
  std::vector<GraphNode> nodes;
  std::vector<const GraphNode*> origins;  // the graph's nodes that they were made of
};

/// One recording: what its streams were given, from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Stream* origin = nullptr;
  bool invalid = false;
  std::uint64_t id = 0;
  std::vector<const GraphNode*> shown{};  // to whoever asked for the last nodes
};

}  // namespace meshbed::sim::cuda
