// Graphs as a whole: made, cloned, and which node comes before which (cuGraphCreate, cuGraphGetEdges,
// cuGraphAddDependencies and their like).

#include <algorithm>

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

/// As documented: without a place the number is wanted; places beyond the last node become null.
CUresult show(const std::vector<GraphNode*>& found, GraphNode** nodes, std::size_t* count) {
  if (count == nullptr) return kInvalidValue;
  if (nodes == nullptr) {
    *count = found.size();
    return kSuccess;
  }
  for (std::size_t index = 0; index < *count; ++index) nodes[index] = index < found.size() ? found[index] : nullptr;
  *count = std::min(*count, found.size());
  return kSuccess;
}

/// Nodes on the other side of edges, and that these edges are plain ones.
CUresult show(const std::vector<GraphNode*>& found, GraphNode** nodes, CUgraphEdgeData* edges, std::size_t* count) {
  if (nodes == nullptr && edges != nullptr) return kInvalidValue;
  const CUresult error = show(found, nodes, count);
  if (error == kSuccess && edges != nullptr) std::fill_n(edges, *count, CUgraphEdgeData{});
  return error;
}

/// Runs call(caller, place) for a node of the program's.
template <typename Call>
CUresult at_node(GraphNode* handle, const Call& call) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const NodePlace place = find_node(*caller.driver, handle);
  return place.graph != nullptr ? call(caller, place) : kInvalidValue;
}

/// Runs change(index of the first, index of the second) for each pair, once all of them are nodes of the graph.
template <typename Change>
CUresult each_pair(const Graph& graph, GraphNode* const* from, GraphNode* const* to, std::size_t count,
                   const Change& change) {
  if (count > 0 && (from == nullptr || to == nullptr)) return kInvalidValue;
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t before = index_of(graph, from[index]), after = index_of(graph, to[index]);
    if (before == graph.nodes.size() || after == graph.nodes.size() || before == after) return kInvalidValue;
  }
  for (std::size_t index = 0; index < count; ++index) {
    const CUresult error = change(index_of(graph, from[index]), index_of(graph, to[index]));
    if (error != kSuccess) return error;
  }
  return kSuccess;
}

}  // namespace

CUresult cuGraphCreate(Graph** graph, unsigned flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (graph == nullptr || flags != 0) return kInvalidValue;
  *graph = caller.driver->graphs.add(std::make_unique<Graph>());
  return kSuccess;
}

CUresult cuGraphDestroy(Graph* graph) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  return caller.driver->graphs.remove(graph) ? kSuccess : kInvalidValue;
}

CUresult cuGraphClone(Graph** clone, Graph* original) {
  return with_graph(original, [&](const Caller& caller, const Graph& graph) -> CUresult {
    if (clone == nullptr) return kInvalidValue;
    if (has_memory(graph)) return refuse("cuGraphClone of a graph that gives memory");
    *clone = caller.driver->graphs.add(clone_of(graph));
    return kSuccess;
  });
}

CUresult cuGraphNodeFindInClone(GraphNode** node, GraphNode* original, Graph* clone) {
  return with_graph(clone, [&](const Caller&, const Graph& graph) -> CUresult {
    if (node == nullptr || original == nullptr) return kInvalidValue;
    const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [original](const auto& one) { return one->original == original; });
    if (found == graph.nodes.end()) return kInvalidValue;
    *node = found->get();
    return kSuccess;
  });
}

CUresult cuGraphGetNodes(Graph* handle, GraphNode** nodes, std::size_t* count) {
  return with_graph(handle, [&](const Caller&, const Graph& graph) {
    std::vector<GraphNode*> all;
    for (const auto& node : graph.nodes) all.push_back(node.get());
    return show(all, nodes, count);
  });
}

CUresult cuGraphGetRootNodes(Graph* handle, GraphNode** nodes, std::size_t* count) {
  return with_graph(handle, [&](const Caller&, const Graph& graph) {
    std::vector<GraphNode*> roots;
    for (const auto& node : graph.nodes) {
      if (node->before.empty()) roots.push_back(node.get());
    }
    return show(roots, nodes, count);
  });
}

CUresult cuGraphGetEdges_v2(Graph* handle, GraphNode** from, GraphNode** to, CUgraphEdgeData* edges,
                            std::size_t* count) {
  return with_graph(handle, [&](const Caller&, const Graph& graph) -> CUresult {
    if ((from == nullptr) != (to == nullptr) || count == nullptr) return kInvalidValue;
    std::vector<GraphNode*> first, second;
    for (const auto& node : graph.nodes) {
      for (const std::size_t before : node->before) {
        first.push_back(graph.nodes[before].get());
        second.push_back(node.get());
      }
    }
    std::size_t shown = *count;
    if (const CUresult error = show(second, to, &shown)) return error;
    return show(first, from, edges, count);
  });
}
CUresult cuGraphGetEdges(Graph* graph, GraphNode** from, GraphNode** to, std::size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}

CUresult cuGraphNodeGetDependencies_v2(GraphNode* node, GraphNode** nodes, CUgraphEdgeData* edges, std::size_t* count) {
  return at_node(node, [&](const Caller&, const NodePlace& place) {
    std::vector<GraphNode*> before;
    for (const std::size_t one : node->before) before.push_back(place.graph->nodes[one].get());
    return show(before, nodes, edges, count);
  });
}
CUresult cuGraphNodeGetDependencies(GraphNode* node, GraphNode** nodes, std::size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(GraphNode* node, GraphNode** nodes, CUgraphEdgeData* edges,
                                         std::size_t* count) {
  return at_node(node, [&](const Caller&, const NodePlace& place) {
    std::vector<GraphNode*> after;
    for (const auto& one : place.graph->nodes) {
      if (std::find(one->before.begin(), one->before.end(), place.index) != one->before.end())
        after.push_back(one.get());
    }
    return show(after, nodes, edges, count);
  });
}
CUresult cuGraphNodeGetDependentNodes(GraphNode* node, GraphNode** nodes, std::size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}

CUresult cuGraphNodeGetType(GraphNode* node, int* type) {
  return at_node(node, [&](const Caller&, const NodePlace&) -> CUresult {
    if (type == nullptr) return kInvalidValue;
    *type = type_of(*node);
    return kSuccess;
  });
}

CUresult cuGraphChildGraphNodeGetGraph(GraphNode* node, Graph** graph) {
  return with_node(node, kChildNode, [&](const Caller&, const GraphNode& found) -> CUresult {
    if (graph == nullptr) return kInvalidValue;
    *graph = found.child.get();
    return kSuccess;
  });
}

CUresult cuGraphAddDependencies_v2(Graph* handle, GraphNode* const* from, GraphNode* const* to,
                                   const CUgraphEdgeData* edges, std::size_t count) {
  return with_graph(handle, [&](const Caller&, Graph& graph) -> CUresult {
    for (std::size_t index = 0; edges != nullptr && index < count; ++index) {
      // Only a kernel has ports, and can let others begin before it ends.
      const std::size_t place = index_of(graph, from[index]);
      const bool of_kernel = place < graph.nodes.size() && type_of(*graph.nodes[place]) == kKernelNode;
      if (!of_kernel && (edges[index].type != 0 || edges[index].from_port != 0)) return kInvalidValue;
    }
    if (const CUresult error = refuse_edge_data(edges, count)) return error;
    return each_pair(graph, from, to, count, [&](std::size_t first, std::size_t second) -> CUresult {
      auto& before = graph.nodes[second]->before;
      if (std::find(before.begin(), before.end(), first) != before.end()) return kInvalidValue;
      before.push_back(first);
      return kSuccess;
    });
  });
}
CUresult cuGraphAddDependencies(Graph* graph, GraphNode* const* from, GraphNode* const* to, std::size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

CUresult cuGraphRemoveDependencies_v2(Graph* handle, GraphNode* const* from, GraphNode* const* to,
                                      const CUgraphEdgeData* edges, std::size_t count) {
  return with_graph(handle, [&](const Caller& caller, Graph& graph) -> CUresult {
    if (const CUresult error = refuse_edge_data(edges, count)) return error;
    const bool recorded = is_recorded(*caller.driver, graph);
    if (has_memory(graph)) return refuse("cuGraphRemoveDependencies from a graph that gives memory");
    return each_pair(graph, from, to, count, [&](std::size_t first, std::size_t second) -> CUresult {
      if (std::erase(graph.nodes[second]->before, first) == 0) return kInvalidValue;
      if (recorded) excuse(graph, {first});
      return kSuccess;
    });
  });
}
CUresult cuGraphRemoveDependencies(Graph* graph, GraphNode* const* from, GraphNode* const* to, std::size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

CUresult cuGraphDestroyNode(GraphNode* node) {
  return at_node(node, [&](const Caller& caller, const NodePlace& place) -> CUresult {
    Graph& graph = *place.graph;
    if (has_memory(graph)) return refuse("cuGraphDestroyNode in a graph that gives memory");
    if (is_recorded(*caller.driver, graph)) return kIllegalState;
    for (const auto& one : graph.nodes) {
      std::erase(one->before, place.index);
      for (std::size_t& before : one->before) before -= before > place.index ? 1 : 0;
    }
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(place.index));
    return kSuccess;
  });
}

// Graphs' memory keeps its address until the graph is destroyed. Its attributes are those of an H200
// (tests/cuda/program/driver_facts.cpp): it exists from the first launch on, in pieces of 32 MiB, until it is trimmed
// when no executable allocates it any more.
CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
  Caller caller;
  Device* device = nullptr;
  if (const CUresult error = with_device(ordinal, caller, device)) return error;
  for (auto& [address, allocation] : caller.driver->allocations) {
    if (allocation.given || allocation.ordinal != ordinal) continue;
    allocation.backed = allocation.backed && is_given_by_executable(*caller.driver, allocation.address);
  }
  return kSuccess;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, int attribute, void* value) {
  constexpr int kLast = 3;  // used and reserved, now and at most: all one here
  constexpr std::uint64_t kPiece = 32 * kMiB;
  Caller caller;
  Device* device = nullptr;
  if (const CUresult error = with_device(ordinal, caller, device)) return error;
  if (value == nullptr || attribute < 0 || attribute > kLast) return kInvalidValue;
  std::uint64_t bytes = 0;
  for (const auto& [address, allocation] : caller.driver->allocations) {
    if (allocation.backed && allocation.ordinal == ordinal) bytes += allocation.size_bytes;
  }
  *static_cast<std::uint64_t*>(value) = (bytes + kPiece - 1) / kPiece * kPiece;
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
