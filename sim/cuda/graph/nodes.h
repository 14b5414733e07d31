#pragma once
// What the sources of graphs share: nodes by their handles, and the tasks that parameters of both interfaces mean.

#include <algorithm>
#include <memory>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

/// cuda.h's CUgraphNodeType.
enum NodeType : int {
  kKernelNode,
  kCopyNode,
  kFillNode,
  kHostNode,
  kChildNode,
  kEmptyNode,
  kWaitEventNode,
  kRecordEventNode,
  kAllocNode = 10,
  kFreeNode = 11,
  kMemoryOperationsNode
};
int type_of(const GraphNode& node);

/// A graph of the program's: made by a call, standing in another one, or being recorded. nullptr: none of these.
Graph* find_graph(const Driver& driver, Graph* handle);
/// A stream records into it.
bool is_recorded(const Driver& driver, const Graph& graph);
/// It gives memory, so that nothing may be taken from it, and it exists once (cuda.h, cuGraphAddMemAllocNode).
bool has_memory(const Graph& graph);
/// A node of it frees that memory.
bool has_free(const Graph& graph, CUdeviceptr address);
/// Something that was made ready gives this memory when it is launched.
bool is_given_by_executable(const Driver& driver, CUdeviceptr address);
/// Its nodes know which ones they were made of.
std::unique_ptr<Graph> clone_of(const Graph& graph);

struct NodePlace {
  Graph* graph = nullptr;  // nullptr: it is no node of the program's
  std::size_t index = 0;
};
NodePlace find_node(const Driver& driver, const GraphNode* node);
/// Behind the last one where it is not there.
std::size_t index_of(const Graph& graph, const GraphNode* node);

CUresult add_node(const Caller& caller, GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                  GraphNode made);
/// One WARN for edges with data beyond the order of two nodes.
CUresult refuse_edge_data(const void* edges, std::size_t count);

CUresult kernel_task(const Caller& caller, const CUDA_KERNEL_NODE_PARAMS_v1* parameters, Task& task);
/// Of a program that names kernels by host functions.
CUresult kernel_task(const Caller& caller, const cudaKernelNodeParams* parameters, Task& task);
/// Of a function, else of a kernel in the current context.
CUresult launch_of(const CUDA_KERNEL_NODE_PARAMS_v2* parameters, CUDA_KERNEL_NODE_PARAMS_v1& launch);
/// nullptr means the current one, which is the only one that a node can be of.
CUresult same_context(const Caller& caller, Context* context);
CUresult copy_task(const Caller& caller, const CUDA_MEMCPY3D* parameters, Task& task);
CUresult fill_task(const Caller& caller, const cudaMemsetParams* parameters, Task& task);
CUresult host_task(const cudaHostNodeParams* parameters, Task& task);

/// cuda.h's CUgraphExecUpdateResult.
enum UpdateResult : int {
  kUpdated,
  kUpdateError,
  kTopologyChanged,
  kTypeChanged,
  kParametersChanged = 5,
  kAttributesChanged = 8
};
/// As documented of nodes that are ready: between which sides of memory a copy goes stays as it was, and so do the rows
/// of a fill, where it has several all its measures, and whether a kernel is cooperative.
UpdateResult change_of(const Task& was, const Task& now);
/// As documented of a copy that is ready: it takes another one's place where both have one dimension, and memory of the
/// same sides. `error`: of making that one.
CUresult exchange_copy(Task& task, CUresult error, Task&& wanted);
/// Nodes from which the program has gone away need not come before the end of the recording, nor what comes before
/// them.
void excuse(Graph& graph, const std::vector<std::size_t>& left);

/// Runs call(caller) in the thread's context.
template <typename Call>
CUresult in_context(const Call& call) {
  const Caller caller = enter_context();
  return caller.error != kSuccess ? caller.error : call(caller);
}

/// Runs call(caller, graph).
template <typename Call>
CUresult with_graph(Graph* handle, const Call& call) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Graph* graph = find_graph(*caller.driver, handle);
  return graph != nullptr ? call(caller, *graph) : kInvalidValue;
}

/// Runs call(caller, node), where the node is of that type.
template <typename Call>
CUresult with_node(GraphNode* handle, NodeType type, const Call& call) {
  return in_context([&](const Caller& caller) -> CUresult {
    if (find_node(*caller.driver, handle).graph == nullptr || type_of(*handle) != type) return kInvalidValue;
    return call(caller, *handle);
  });
}

/// Runs call(caller, executable, index of what became of the node), where that is of that type.
template <typename Call>
CUresult with_ready_node(GraphExec* handle, const GraphNode* node, NodeType type, const Call& call) {
  return in_context([&](const Caller& caller) -> CUresult {
    GraphExec* executable = caller.driver->executables.find(handle);
    // As documented, the graph still has it; a number, because a node that was made later may have its address.
    if (executable == nullptr || find_node(*caller.driver, node).graph == nullptr) return kInvalidValue;
    const auto& nodes = executable->nodes;
    const auto found =
        std::find_if(nodes.begin(), nodes.end(), [&](const GraphNode& one) { return one.id == node->id; });
    if (found == nodes.end() || type_of(*found) != type) return kInvalidValue;
    return call(caller, *executable, static_cast<std::size_t>(found - nodes.begin()));
  });
}

}  // namespace meshbed::sim::cuda
