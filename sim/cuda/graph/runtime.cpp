// The runtime's graphs: the driver's, but for kernels that are named by host functions, and for copies.

#include "sim/cuda/runtime.h"

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

/// Runs call(caller) in the context that the runtime has begun.
template <typename Call>
CUresult in_runtime_context(const Call& call) {
  return in_runtime([&] { return in_context(call); });
}

CUresult copy_task(const Caller& caller, const Box& box, Task& task) {
  Copy copy;
  const CUresult error = make_copy(caller, box, copy);
  if (error == kSuccess) task = std::move(copy);
  return error;
}
CUresult copy_task(const Caller& caller, const cudaMemcpy3DParms* parameters, Task& task) {
  Box box;
  if (parameters == nullptr) return kInvalidValue;
  const CUresult error = box_of(*parameters, box);
  return error != kSuccess ? error : copy_task(caller, box, task);
}

Box flat_box(void* target, const void* source, std::size_t size) {
  return {
      .target = reinterpret_cast<CUdeviceptr>(target), .source = reinterpret_cast<CUdeviceptr>(source), .width = size};
}

/// A node for the task that make(caller, task) makes.
template <typename Make>
CUresult add_task(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count, const Make& make) {
  return in_runtime_context([&](const Caller& caller) -> CUresult {
    GraphNode made;
    if (const CUresult error = make(caller, made.task)) return error;
    return add_node(caller, node, graph, before, count, std::move(made));
  });
}
template <typename Make>
CUresult set_task(GraphNode* node, NodeType type, const Make& make) {
  return in_runtime([&] {
    return with_node(node, type, [&](const Caller& caller, GraphNode& own) { return make(caller, own.task); });
  });
}
template <typename Make>
CUresult set_ready_task(GraphExec* executable, GraphNode* node, NodeType type, const Make& make) {
  return in_runtime([&] {
    return with_ready_node(executable, node, type, [&](const Caller& caller, GraphExec& ready, std::size_t at) {
      return make(caller, ready.nodes[at].task);
    });
  });
}

}  // namespace

CUresult cudaGraphCreate(Graph** graph, unsigned flags) {
  return in_runtime([&] { return cuGraphCreate(graph, flags); });
}
CUresult cudaGraphClone(Graph** clone, Graph* original) {
  return in_runtime([&] { return cuGraphClone(clone, original); });
}
CUresult cudaGraphNodeFindInClone(GraphNode** node, GraphNode* original, Graph* clone) {
  return in_runtime([&] { return cuGraphNodeFindInClone(node, original, clone); });
}
CUresult cudaGraphGetRootNodes(Graph* graph, GraphNode** nodes, std::size_t* count) {
  return in_runtime([&] { return cuGraphGetRootNodes(graph, nodes, count); });
}
CUresult cudaGraphGetEdges(Graph* graph, GraphNode** from, GraphNode** to, CUgraphEdgeData* edges, std::size_t* count) {
  return in_runtime([&] { return cuGraphGetEdges_v2(graph, from, to, edges, count); });
}
CUresult cudaGraphNodeGetDependencies(GraphNode* node, GraphNode** nodes, CUgraphEdgeData* edges, std::size_t* count) {
  return in_runtime([&] { return cuGraphNodeGetDependencies_v2(node, nodes, edges, count); });
}
CUresult cudaGraphNodeGetDependentNodes(GraphNode* node, GraphNode** nodes, CUgraphEdgeData* edges,
                                        std::size_t* count) {
  return in_runtime([&] { return cuGraphNodeGetDependentNodes_v2(node, nodes, edges, count); });
}
CUresult cudaGraphNodeGetType(GraphNode* node, int* type) {
  return in_runtime([&] { return cuGraphNodeGetType(node, type); });
}
CUresult cudaGraphAddDependencies(Graph* graph, GraphNode* const* from, GraphNode* const* to,
                                  const CUgraphEdgeData* edges, std::size_t count) {
  return in_runtime([&] { return cuGraphAddDependencies_v2(graph, from, to, edges, count); });
}
CUresult cudaGraphRemoveDependencies(Graph* graph, GraphNode* const* from, GraphNode* const* to,
                                     const CUgraphEdgeData* edges, std::size_t count) {
  return in_runtime([&] { return cuGraphRemoveDependencies_v2(graph, from, to, edges, count); });
}
CUresult cudaGraphDestroyNode(GraphNode* node) {
  return in_runtime([&] { return cuGraphDestroyNode(node); });
}
CUresult cudaGraphAddEmptyNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count) {
  return in_runtime([&] { return cuGraphAddEmptyNode(node, graph, before, count); });
}
CUresult cudaGraphAddHostNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                              const cudaHostNodeParams* parameters) {
  return in_runtime([&] { return cuGraphAddHostNode(node, graph, before, count, parameters); });
}
CUresult cudaGraphAddChildGraphNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                    Graph* child) {
  return in_runtime([&] { return cuGraphAddChildGraphNode(node, graph, before, count, child); });
}
CUresult cudaGraphChildGraphNodeGetGraph(GraphNode* node, Graph** graph) {
  return in_runtime([&] { return cuGraphChildGraphNodeGetGraph(node, graph); });
}
CUresult cudaGraphAddEventRecordNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                     Event* event) {
  return in_runtime([&] { return cuGraphAddEventRecordNode(node, graph, before, count, event); });
}
CUresult cudaGraphAddEventWaitNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                   Event* event) {
  return in_runtime([&] { return cuGraphAddEventWaitNode(node, graph, before, count, event); });
}
CUresult cudaGraphEventRecordNodeGetEvent(GraphNode* node, Event** event) {
  return in_runtime([&] { return cuGraphEventRecordNodeGetEvent(node, event); });
}
CUresult cudaGraphEventRecordNodeSetEvent(GraphNode* node, Event* event) {
  return in_runtime([&] { return cuGraphEventRecordNodeSetEvent(node, event); });
}
CUresult cudaGraphEventWaitNodeGetEvent(GraphNode* node, Event** event) {
  return in_runtime([&] { return cuGraphEventWaitNodeGetEvent(node, event); });
}
CUresult cudaGraphEventWaitNodeSetEvent(GraphNode* node, Event* event) {
  return in_runtime([&] { return cuGraphEventWaitNodeSetEvent(node, event); });
}
CUresult cudaGraphAddMemAllocNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                  cudaMemAllocNodeParams* parameters) {
  return in_runtime([&] { return cuGraphAddMemAllocNode(node, graph, before, count, parameters); });
}
CUresult cudaGraphMemAllocNodeGetParams(GraphNode* node, cudaMemAllocNodeParams* parameters) {
  return in_runtime([&] { return cuGraphMemAllocNodeGetParams(node, parameters); });
}
CUresult cudaGraphMemsetNodeGetParams(GraphNode* node, cudaMemsetParams* parameters) {
  return in_runtime([&] { return cuGraphMemsetNodeGetParams(node, parameters); });
}
CUresult cudaGraphMemsetNodeSetParams(GraphNode* node, const cudaMemsetParams* parameters) {
  return in_runtime([&] { return cuGraphMemsetNodeSetParams(node, parameters); });
}
CUresult cudaGraphHostNodeGetParams(GraphNode* node, cudaHostNodeParams* parameters) {
  return in_runtime([&] { return cuGraphHostNodeGetParams(node, parameters); });
}
CUresult cudaGraphHostNodeSetParams(GraphNode* node, const cudaHostNodeParams* parameters) {
  return in_runtime([&] { return cuGraphHostNodeSetParams(node, parameters); });
}
CUresult cudaGraphInstantiateWithFlags(GraphExec** executable, Graph* graph, unsigned long long flags) {
  return in_runtime([&] { return cuGraphInstantiateWithFlags(executable, graph, flags); });
}
CUresult cudaGraphInstantiateWithParams(GraphExec** executable, Graph* graph,
                                        CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return in_runtime([&] { return cuGraphInstantiateWithParams(executable, graph, parameters); });
}
CUresult cudaGraphExecGetFlags(GraphExec* executable, unsigned long long* flags) {
  return in_runtime([&] { return cuGraphExecGetFlags(executable, flags); });
}
CUresult cudaGraphUpload(GraphExec* executable, Stream* stream) {
  return in_runtime([&] { return cuGraphUpload(executable, stream); });
}
CUresult cudaGraphExecUpdate(GraphExec* executable, Graph* graph, cudaGraphExecUpdateResultInfo* result) {
  return in_runtime([&] { return cuGraphExecUpdate_v2(executable, graph, result); });
}
CUresult cudaGraphExecHostNodeSetParams(GraphExec* executable, GraphNode* node, const cudaHostNodeParams* parameters) {
  return in_runtime([&] { return cuGraphExecHostNodeSetParams(executable, node, parameters); });
}
CUresult cudaGraphExecChildGraphNodeSetParams(GraphExec* executable, GraphNode* node, Graph* child) {
  return in_runtime([&] { return cuGraphExecChildGraphNodeSetParams(executable, node, child); });
}
CUresult cudaGraphExecEventRecordNodeSetEvent(GraphExec* executable, GraphNode* node, Event* event) {
  return in_runtime([&] { return cuGraphExecEventRecordNodeSetEvent(executable, node, event); });
}
CUresult cudaGraphExecEventWaitNodeSetEvent(GraphExec* executable, GraphNode* node, Event* event) {
  return in_runtime([&] { return cuGraphExecEventWaitNodeSetEvent(executable, node, event); });
}
CUresult cudaGraphNodeSetEnabled(GraphExec* executable, GraphNode* node, unsigned enabled) {
  return in_runtime([&] { return cuGraphNodeSetEnabled(executable, node, enabled); });
}
CUresult cudaGraphNodeGetEnabled(GraphExec* executable, GraphNode* node, unsigned* enabled) {
  return in_runtime([&] { return cuGraphNodeGetEnabled(executable, node, enabled); });
}
CUresult cudaDeviceGraphMemTrim(int device) {
  return in_runtime([&] { return cuDeviceGraphMemTrim(device); });
}
CUresult cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value) {
  return in_runtime([&] { return cuDeviceGetGraphMemAttribute(device, attribute, value); });
}

CUresult cudaGraphAddKernelNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                const cudaKernelNodeParams* parameters) {
  return add_task(node, graph, before, count,
                  [&](const Caller& caller, Task& task) { return kernel_task(caller, parameters, task); });
}
CUresult cudaGraphKernelNodeSetParams(GraphNode* node, const cudaKernelNodeParams* parameters) {
  return set_task(node, kKernelNode,
                  [&](const Caller& caller, Task& task) { return kernel_task(caller, parameters, task); });
}
CUresult cudaGraphExecKernelNodeSetParams(GraphExec* executable, GraphNode* node,
                                          const cudaKernelNodeParams* parameters) {
  return set_ready_task(executable, node, kKernelNode,
                        [&](const Caller& caller, Task& task) { return kernel_task(caller, parameters, task); });
}
CUresult cudaGraphKernelNodeGetParams(GraphNode* node, cudaKernelNodeParams* parameters) {
  return in_runtime_context([&](const Caller& caller) -> CUresult {
    CUDA_KERNEL_NODE_PARAMS_v1 launch{};
    if (parameters == nullptr) return kInvalidValue;
    if (const CUresult error = cuGraphKernelNodeGetParams(node, &launch)) return error;
    const auto& functions = caller.driver->host_functions;
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [&](const auto& one) { return one.second == launch.function; });
    if (found == functions.end()) return kInvalidDeviceFunction;  // of a module that the driver's calls loaded
    *parameters = {.function = const_cast<void*>(found->first),
                   .grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
                   .block = {launch.block[0], launch.block[1], launch.block[2]},
                   .shared_bytes = launch.shared_bytes,
                   .arguments = launch.arguments,
                   .extra = nullptr};
    return kSuccess;
  });
}

CUresult cudaGraphAddMemcpyNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                const cudaMemcpy3DParms* parameters) {
  return add_task(node, graph, before, count,
                  [&](const Caller& caller, Task& task) { return copy_task(caller, parameters, task); });
}
CUresult cudaGraphAddMemcpyNode1D(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                  void* target, const void* source, std::size_t size, int) {
  return add_task(node, graph, before, count, [&](const Caller& caller, Task& task) {
    return copy_task(caller, flat_box(target, source, size), task);
  });
}
CUresult cudaGraphMemcpyNodeSetParams(GraphNode* node, const cudaMemcpy3DParms* parameters) {
  return set_task(node, kCopyNode,
                  [&](const Caller& caller, Task& task) { return copy_task(caller, parameters, task); });
}
CUresult cudaGraphMemcpyNodeSetParams1D(GraphNode* node, void* target, const void* source, std::size_t size, int) {
  return set_task(node, kCopyNode, [&](const Caller& caller, Task& task) {
    return copy_task(caller, flat_box(target, source, size), task);
  });
}
CUresult cudaGraphExecMemcpyNodeSetParams(GraphExec* executable, GraphNode* node, const cudaMemcpy3DParms* parameters) {
  return set_ready_task(executable, node, kCopyNode, [&](const Caller& caller, Task& task) {
    Task wanted;
    const CUresult error = copy_task(caller, parameters, wanted);
    return exchange_copy(task, error, std::move(wanted));
  });
}
CUresult cudaGraphExecMemcpyNodeSetParams1D(GraphExec* executable, GraphNode* node, void* target, const void* source,
                                            std::size_t size, int) {
  return set_ready_task(executable, node, kCopyNode, [&](const Caller& caller, Task& task) {
    Task wanted;
    const CUresult error = copy_task(caller, flat_box(target, source, size), wanted);
    return exchange_copy(task, error, std::move(wanted));
  });
}

CUresult cudaGraphAddMemsetNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                const cudaMemsetParams* parameters) {
  return in_runtime([&] { return cuGraphAddMemsetNode(node, graph, before, count, parameters, nullptr); });
}
CUresult cudaGraphExecMemsetNodeSetParams(GraphExec* executable, GraphNode* node, const cudaMemsetParams* parameters) {
  return in_runtime([&] { return cuGraphExecMemsetNodeSetParams(executable, node, parameters, nullptr); });
}

CUresult cudaGraphAddMemFreeNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                 void* address) {
  return in_runtime(
      [&] { return cuGraphAddMemFreeNode(node, graph, before, count, reinterpret_cast<CUdeviceptr>(address)); });
}
CUresult cudaGraphMemFreeNodeGetParams(GraphNode* node, void* address) {
  return in_runtime([&] { return cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(address)); });
}

CUresult cudaStreamUpdateCaptureDependencies(Stream* stream, GraphNode** nodes, const CUgraphEdgeData* edges,
                                             std::size_t count, unsigned flags) {
  return in_runtime([&] { return cuStreamUpdateCaptureDependencies_v2(stream, nodes, edges, count, flags); });
}

}  // namespace meshbed::sim::cuda
