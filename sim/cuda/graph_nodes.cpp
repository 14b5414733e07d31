// Graphs that a program builds node by node, and changes: cudaGraphAdd*Node, cudaGraphExecUpdate.

#include <algorithm>
#include <cstring>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// cuda.h's CUgraphNodeType.
enum NodeType : int {
  kKernelNode,
  kCopyNode,
  kFillNode,
  kHostNode,
  kEmptyNode = 5,
  kAllocNode = 10,
  kFreeNode = 11,
  kMemoryOperationsNode
};

int type_of(const GraphNode& node) {
  const Task& task = node.task;
  if (node.memory != 0) return node.memory == 1 ? kAllocNode : kFreeNode;
  if (std::holds_alternative<KernelLaunch>(task)) return kKernelNode;
  if (std::holds_alternative<Copy>(task)) return kCopyNode;
  if (std::holds_alternative<Fill>(task)) return kFillNode;
  if (std::holds_alternative<HostCall>(task)) return kHostNode;
  if (std::holds_alternative<WaitValue>(task)) return kMemoryOperationsNode;
  return kEmptyNode;
}

std::size_t index_of(const Graph& graph, const GraphNode* node) {
  const auto& nodes = graph.nodes;
  return static_cast<std::size_t>(
      std::find_if(nodes.begin(), nodes.end(), [node](const auto& one) { return one.get() == node; }) - nodes.begin());
}

CUresult add_node(const Caller& caller, GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                  Task task, int memory = 0) {
  Graph* found = caller.driver->graphs.find(graph);
  if (found == nullptr || node == nullptr || (count > 0 && before == nullptr)) return kInvalidValue;
  auto made = std::make_unique<GraphNode>();
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t place = index_of(*found, before[index]);
    if (place == found->nodes.size()) return kInvalidValue;
    made->before.push_back(place);
  }
  made->task = std::move(task);
  made->memory = memory;
  *node = found->nodes.emplace_back(std::move(made)).get();
  return kSuccess;
}

CUresult kernel_task(const Caller& caller, const cudaKernelNodeParams* parameters, Task& task) {
  if (parameters == nullptr) return kInvalidValue;
  Kernel* kernel = nullptr;
  if (const CUresult error = kernel_of(parameters->function, kernel)) return error;
  const unsigned grid[] = {parameters->grid.x, parameters->grid.y, parameters->grid.z};
  const unsigned block[] = {parameters->block.x, parameters->block.y, parameters->block.z};
  KernelLaunch made;
  const CUresult error = prepare_launch(caller, kernel, grid, block, parameters->shared_bytes, parameters->arguments,
                                        parameters->extra, made);
  if (error == kSuccess) task = std::move(made);
  return error;
}

/// Runs call(caller) in the thread's context.
template <typename Call>
CUresult in_context(const Call& call) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    return caller.error != kSuccess ? caller.error : call(caller);
  });
}

}  // namespace

CUresult cudaGraphCreate(Graph** graph, unsigned flags) {
  return in_runtime([&] { return cuGraphCreate(graph, flags); });
}
CUresult cudaGraphInstantiateWithFlags(GraphExec** executable, Graph* graph, unsigned long long flags) {
  return in_runtime([&] { return cuGraphInstantiateWithFlags(executable, graph, flags); });
}
// Nothing has to be carried to the device ahead of a launch.
CUresult cudaGraphUpload(GraphExec* executable, Stream* stream) {
  return in_context([&](const Caller& caller) -> CUresult {
    if (find_stream(caller, stream) == nullptr) return kInvalidHandle;
    return caller.driver->executables.find(executable) != nullptr ? kSuccess : kInvalidValue;
  });
}
CUresult cudaGraphClone(Graph** clone, Graph* original) {
  return in_context([&](const Caller& caller) -> CUresult {
    const Graph* found = caller.driver->graphs.find(original);
    if (found == nullptr || clone == nullptr) return kInvalidValue;
    auto made = std::make_unique<Graph>();
    for (const auto& node : found->nodes) made->nodes.push_back(std::make_unique<GraphNode>(*node));
    *clone = caller.driver->graphs.add(std::move(made));
    return kSuccess;
  });
}

CUresult cudaGraphAddKernelNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                const cudaKernelNodeParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    Task task;
    if (const CUresult error = kernel_task(caller, parameters, task)) return error;
    return add_node(caller, node, graph, before, count, std::move(task));
  });
}

CUresult cudaGraphAddMemcpyNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                const cudaMemcpy3DParms* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    Box box;
    Copy copy;
    if (parameters == nullptr) return kInvalidValue;
    if (const CUresult error = box_of(*parameters, box)) return error;
    if (const CUresult error = make_copy(caller, box, copy)) return error;
    return add_node(caller, node, graph, before, count, std::move(copy));
  });
}

CUresult cudaGraphAddMemcpyNode1D(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                  void* target, const void* source, std::size_t size, int) {
  return in_context([&](const Caller& caller) -> CUresult {
    Copy copy;
    const Box box{.target = reinterpret_cast<CUdeviceptr>(target),
                  .source = reinterpret_cast<CUdeviceptr>(source),
                  .width = size};
    if (const CUresult error = make_copy(caller, box, copy)) return error;
    return add_node(caller, node, graph, before, count, std::move(copy));
  });
}

CUresult cudaGraphAddMemsetNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                const cudaMemsetParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    Fill fill;
    if (parameters == nullptr) return kInvalidValue;
    const CUresult error =
        make_fill(caller, reinterpret_cast<CUdeviceptr>(parameters->target), parameters->value,
                  parameters->element_bytes, parameters->width, parameters->height, parameters->pitch, fill);
    return error != kSuccess ? error : add_node(caller, node, graph, before, count, std::move(fill));
  });
}

CUresult cudaGraphAddHostNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                              const cudaHostNodeParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    if (parameters == nullptr || parameters->function == nullptr) return kInvalidValue;
    return add_node(caller, node, graph, before, count,
                    HostCall{.function = parameters->function, .data = parameters->data});
  });
}

CUresult cudaGraphAddEmptyNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count) {
  return in_context([&](const Caller& caller) { return add_node(caller, node, graph, before, count, Marker{}); });
}

CUresult cudaGraphAddMemAllocNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                  cudaMemAllocNodeParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    if (parameters == nullptr || parameters->bytes == 0) return kInvalidValue;
    if (parameters->pool.location.type != 1 || parameters->pool.location.id != caller.context->ordinal)
      return refuse("a graph's memory of another device than the current one");
    CUdeviceptr address = 0;
    if (const CUresult error = allocate_for_graph(caller, parameters->bytes, address)) return error;
    const CUresult error = add_node(caller, node, graph, before, count, Marker{}, 1);
    if (error != kSuccess) {
      free_allocation(*caller.driver, address);
      return error;
    }
    parameters->address = reinterpret_cast<void*>(address);
    return kSuccess;
  });
}

CUresult cudaGraphAddMemFreeNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                 void* address) {
  return in_context([&](const Caller& caller) -> CUresult {
    const auto found = caller.driver->allocations.find(reinterpret_cast<std::uint64_t>(address));
    if (found == caller.driver->allocations.end() || !found->second.of_graph) return kInvalidValue;
    return add_node(caller, node, graph, before, count, Marker{}, 2);
  });
}

// Graphs' memory stays where it is until its context ends: there is nothing to be given back.
CUresult cudaDeviceGraphMemTrim(int device) {
  return in_context([&](const Caller& caller) -> CUresult {
    return find_device(*caller.driver, device) != nullptr ? kSuccess : kInvalidDevice;
  });
}

CUresult cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value) {
  constexpr int kLast = 3;  // used and reserved, now and at most: all one here
  return in_context([&](const Caller& caller) -> CUresult {
    if (find_device(*caller.driver, device) == nullptr) return kInvalidDevice;
    if (value == nullptr || attribute < 0 || attribute > kLast) return kInvalidValue;
    std::uint64_t bytes = 0;
    for (const auto& [address, allocation] : caller.driver->allocations) {
      if (allocation.of_graph && allocation.ordinal == device) bytes += allocation.size_bytes;
    }
    std::memcpy(value, &bytes, sizeof(bytes));
    return kSuccess;
  });
}

CUresult cudaGraphAddDependencies(Graph* graph, GraphNode* const* from, GraphNode* const* to, const void*,
                                  std::size_t count) {
  return in_context([&](const Caller& caller) -> CUresult {
    Graph* found = caller.driver->graphs.find(graph);
    if (found == nullptr || (count > 0 && (from == nullptr || to == nullptr))) return kInvalidValue;
    for (std::size_t index = 0; index < count; ++index) {
      const std::size_t before = index_of(*found, from[index]), after = index_of(*found, to[index]);
      if (before == found->nodes.size() || after == found->nodes.size() || before == after) return kInvalidValue;
      found->nodes[after]->before.push_back(before);
    }
    return kSuccess;
  });
}

CUresult cudaGraphNodeGetType(GraphNode* node, int* type) {
  return in_context([&](const Caller& caller) -> CUresult {
    if (type == nullptr) return kInvalidValue;
    const bool known =
        caller.driver->graphs.any([node](const Graph& graph) { return index_of(graph, node) < graph.nodes.size(); });
    if (!known) return kInvalidValue;
    *type = type_of(*node);
    return kSuccess;
  });
}

CUresult cudaGraphExecUpdate(GraphExec* executable, Graph* graph, cudaGraphExecUpdateResultInfo* result) {
  constexpr int kDone = 0, kShapeDiffers = 2, kTypeDiffers = 3;
  return in_context([&](const Caller& caller) -> CUresult {
    GraphExec* target = caller.driver->executables.find(executable);
    const Graph* source = caller.driver->graphs.find(graph);
    if (target == nullptr || source == nullptr || result == nullptr) return kInvalidValue;
    *result = {.result = kDone, .node = nullptr, .from = nullptr};
    if (target->nodes.size() != source->nodes.size()) {
      result->result = kShapeDiffers;
      return kGraphExecUpdateFailure;
    }
    for (std::size_t index = 0; index < target->nodes.size(); ++index) {
      const GraphNode& now = *source->nodes[index];
      const bool same_type = type_of(now) == type_of(target->nodes[index]);
      if (same_type && now.before == target->nodes[index].before) continue;
      result->result = same_type ? kShapeDiffers : kTypeDiffers;
      result->node = source->nodes[index].get();
      return kGraphExecUpdateFailure;
    }
    for (std::size_t index = 0; index < target->nodes.size(); ++index) target->nodes[index] = *source->nodes[index];
    return kSuccess;
  });
}

CUresult cudaGraphExecKernelNodeSetParams(GraphExec* executable, GraphNode* node,
                                          const cudaKernelNodeParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    GraphExec* target = caller.driver->executables.find(executable);
    if (target == nullptr) return kInvalidValue;
    const auto found = std::find(target->origins.begin(), target->origins.end(), node);
    if (found == target->origins.end()) return kInvalidValue;
    GraphNode& own = target->nodes[static_cast<std::size_t>(found - target->origins.begin())];
    if (type_of(own) != kKernelNode) return kInvalidValue;
    return kernel_task(caller, parameters, own.task);
  });
}

CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
  std::swap(*mode, caller.thread->capture_mode);
  return kSuccess;
}

CUresult cuStreamGetCaptureInfo_v3(Stream* handle, int* status, unsigned long long* id, Graph** graph,
                                   const GraphNode*** nodes, const void** edges, std::size_t* count) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (const CUresult error = cuStreamIsCapturing(handle, status)) return error;
  if (stream->capture == nullptr) return kSuccess;
  Capture& capture = *stream->capture;
  capture.shown.clear();
  for (const std::size_t tail : stream->capture_tails) capture.shown.push_back(capture.graph->nodes[tail].get());
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = capture.graph.get();
  if (nodes != nullptr) *nodes = capture.shown.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = capture.shown.size();
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
