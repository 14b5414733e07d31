// What nodes do, asked and changed: in a graph (cuGraph*NodeGetParams, cuGraph*NodeSetParams) and in one that is ready
// (cuGraphExec*NodeSetParams), which what is under way does not see.

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

/// A node's task is from now on what make(caller, task) makes of it.
template <typename Make>
CUresult set(GraphNode* node, NodeType type, const Make& make) {
  return with_node(node, type, [&](const Caller& caller, GraphNode& own) { return make(caller, own.task); });
}
template <typename Make>
CUresult set_ready(GraphExec* executable, GraphNode* node, NodeType type, const Make& make) {
  return with_ready_node(executable, node, type, [&](const Caller& caller, GraphExec& ready, std::size_t at) {
    return make(caller, ready.nodes[at].task);
  });
}

void show_side(const Driver& driver, CUdeviceptr address, CUDA_MEMCPY3D::Side& side) {
  const Array* array = nullptr;
  driver.arrays.any([&](const Array& one) {
    if (address - one.address >= one.bytes()) return false;
    array = &one;
    return true;
  });
  if (array != nullptr) {
    const std::uint64_t offset = address - array->address, row = offset / array->row_bytes();
    side.kind = kMemoryArray;
    side.array = const_cast<Array*>(array);
    side.x_bytes = offset % array->row_bytes();
    side.y = row % array->height;
    side.z = row / array->height;
    return;
  }
  const Allocation* found = find_allocation(driver, address, 1);
  const bool on_host = found == nullptr || found->kind == MemoryKind::kPinned || found->kind == MemoryKind::kRegistered;
  side.kind = on_host ? kMemoryHost : kMemoryDevice;
  if (on_host) {
    side.host = reinterpret_cast<const void*>(address);
  } else {
    side.device = address;
  }
}

}  // namespace

UpdateResult change_of(const Task& was, const Task& now) {
  if (const auto* launch = std::get_if<KernelLaunch>(&was)) {
    return launch->cooperative == std::get<KernelLaunch>(now).cooperative ? kUpdated : kAttributesChanged;
  }
  if (const auto* copy = std::get_if<Copy>(&was)) {
    const Copy& other = std::get<Copy>(now);
    const bool same_way = copy->engine == other.engine && copy->between_hosts == other.between_hosts;
    return same_way ? kUpdated : kParametersChanged;
  }
  if (const auto* fill = std::get_if<Fill>(&was)) {
    const Fill& other = std::get<Fill>(now);
    const bool same_measures = fill->rows == 1 || (fill->element_bytes == other.element_bytes &&
                                                   fill->count == other.count && fill->pitch == other.pitch);
    return fill->rows == other.rows && same_measures ? kUpdated : kParametersChanged;
  }
  return kUpdated;
}

CUresult exchange_copy(Task& task, CUresult error, Task&& wanted) {
  const auto is_flat = [](const Copy& copy) { return copy.height == 1 && copy.depth == 1; };
  if (error != kSuccess) return error;
  if (!is_flat(std::get<Copy>(task)) || !is_flat(std::get<Copy>(wanted))) return kInvalidValue;
  if (change_of(task, wanted) != kUpdated) return kInvalidValue;
  task = std::move(wanted);
  return kSuccess;
}

CUresult cuGraphKernelNodeGetParams(GraphNode* node, CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return with_node(node, kKernelNode, [&](const Caller&, GraphNode& own) -> CUresult {
    if (parameters == nullptr) return kInvalidValue;
    auto& launch = std::get<KernelLaunch>(own.task);
    // As documented: the node's own memory, until its parameters are set anew.
    own.arguments.clear();
    for (const auto& one : launch.parameters()) own.arguments.push_back(launch.values.data() + one.offset);
    *parameters = {.function = launch.kernel,
                   .grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
                   .block = {launch.block[0], launch.block[1], launch.block[2]},
                   .shared_bytes = launch.shared_bytes,
                   .arguments = own.arguments.empty() ? nullptr : own.arguments.data(),
                   .extra = nullptr};
    return kSuccess;
  });
}
CUresult cuGraphKernelNodeGetParams_v2(GraphNode* node, CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  if (parameters == nullptr) return kInvalidValue;
  CUDA_KERNEL_NODE_PARAMS_v1 launch{};
  const CUresult error = cuGraphKernelNodeGetParams(node, &launch);
  if (error == kSuccess) *parameters = {.launch = launch, .kernel = nullptr, .context = nullptr};
  return error;
}

CUresult cuGraphKernelNodeSetParams(GraphNode* node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return set(node, kKernelNode,
             [&](const Caller& caller, Task& task) { return kernel_task(caller, parameters, task); });
}
CUresult cuGraphKernelNodeSetParams_v2(GraphNode* node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  CUDA_KERNEL_NODE_PARAMS_v1 launch{};
  const CUresult error = launch_of(parameters, launch);
  return error != kSuccess ? error : cuGraphKernelNodeSetParams(node, &launch);
}
CUresult cuGraphExecKernelNodeSetParams(GraphExec* executable, GraphNode* node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return set_ready(executable, node, kKernelNode,
                   [&](const Caller& caller, Task& task) { return kernel_task(caller, parameters, task); });
}
CUresult cuGraphExecKernelNodeSetParams_v2(GraphExec* executable, GraphNode* node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  CUDA_KERNEL_NODE_PARAMS_v1 launch{};
  const CUresult error = launch_of(parameters, launch);
  return error != kSuccess ? error : cuGraphExecKernelNodeSetParams(executable, node, &launch);
}

// The copy as the device makes it: what was given as an offset is in the addresses.
CUresult cuGraphMemcpyNodeGetParams(GraphNode* node, CUDA_MEMCPY3D* parameters) {
  return with_node(node, kCopyNode, [&](const Caller& caller, const GraphNode& own) -> CUresult {
    if (parameters == nullptr) return kInvalidValue;
    const Copy& copy = std::get<Copy>(own.task);
    *parameters = {};
    show_side(*caller.driver, copy.source_address, parameters->source);
    show_side(*caller.driver, copy.target_address, parameters->target);
    parameters->source.pitch = copy.source_pitch;
    parameters->source.height = copy.source_pitch != 0 ? copy.source_slice / copy.source_pitch : copy.height;
    parameters->target.pitch = copy.target_pitch;
    parameters->target.height = copy.target_pitch != 0 ? copy.target_slice / copy.target_pitch : copy.height;
    parameters->width_bytes = copy.width_bytes;
    parameters->height = copy.height;
    parameters->depth = copy.depth;
    return kSuccess;
  });
}
CUresult cuGraphMemcpyNodeSetParams(GraphNode* node, const CUDA_MEMCPY3D* parameters) {
  return set(node, kCopyNode, [&](const Caller& caller, Task& task) { return copy_task(caller, parameters, task); });
}
CUresult cuGraphExecMemcpyNodeSetParams(GraphExec* executable, GraphNode* node, const CUDA_MEMCPY3D* parameters,
                                        Context* context) {
  return set_ready(executable, node, kCopyNode, [&](const Caller& caller, Task& task) -> CUresult {
    Task wanted;
    if (const CUresult error = same_context(caller, context)) return error;
    const CUresult error = copy_task(caller, parameters, wanted);
    return exchange_copy(task, error, std::move(wanted));
  });
}

CUresult cuGraphMemsetNodeGetParams(GraphNode* node, cudaMemsetParams* parameters) {
  return with_node(node, kFillNode, [&](const Caller&, const GraphNode& own) -> CUresult {
    if (parameters == nullptr) return kInvalidValue;
    const Fill& fill = std::get<Fill>(own.task);
    *parameters = {.target = reinterpret_cast<void*>(fill.address),
                   .pitch = fill.pitch,
                   .value = fill.value,
                   .element_bytes = static_cast<unsigned>(fill.element_bytes),
                   .width = fill.count,
                   .height = fill.rows};
    return kSuccess;
  });
}
CUresult cuGraphMemsetNodeSetParams(GraphNode* node, const cudaMemsetParams* parameters) {
  return set(node, kFillNode, [&](const Caller& caller, Task& task) { return fill_task(caller, parameters, task); });
}
CUresult cuGraphExecMemsetNodeSetParams(GraphExec* executable, GraphNode* node, const cudaMemsetParams* parameters,
                                        Context* context) {
  return set_ready(executable, node, kFillNode, [&](const Caller& caller, Task& task) -> CUresult {
    Task wanted;
    if (const CUresult error = same_context(caller, context)) return error;
    if (const CUresult error = fill_task(caller, parameters, wanted)) return error;
    if (change_of(task, wanted) != kUpdated) return kInvalidValue;
    task = std::move(wanted);
    return kSuccess;
  });
}

CUresult cuGraphHostNodeGetParams(GraphNode* node, cudaHostNodeParams* parameters) {
  return with_node(node, kHostNode, [&](const Caller&, const GraphNode& own) -> CUresult {
    if (parameters == nullptr) return kInvalidValue;
    const HostCall& call = std::get<HostCall>(own.task);
    *parameters = {.function = call.function, .data = call.data};
    return kSuccess;
  });
}
CUresult cuGraphHostNodeSetParams(GraphNode* node, const cudaHostNodeParams* parameters) {
  return set(node, kHostNode, [&](const Caller&, Task& task) { return host_task(parameters, task); });
}
CUresult cuGraphExecHostNodeSetParams(GraphExec* executable, GraphNode* node, const cudaHostNodeParams* parameters) {
  return set_ready(executable, node, kHostNode, [&](const Caller&, Task& task) { return host_task(parameters, task); });
}

CUresult cuGraphEventRecordNodeGetEvent(GraphNode* node, Event** event) {
  return with_node(node, kRecordEventNode, [&](const Caller&, const GraphNode& own) -> CUresult {
    if (event == nullptr) return kInvalidValue;
    *event = own.recorded;
    return kSuccess;
  });
}
CUresult cuGraphEventWaitNodeGetEvent(GraphNode* node, Event** event) {
  return with_node(node, kWaitEventNode, [&](const Caller&, const GraphNode& own) -> CUresult {
    if (event == nullptr) return kInvalidValue;
    *event = own.awaited;
    return kSuccess;
  });
}
CUresult cuGraphEventRecordNodeSetEvent(GraphNode* node, Event* event) {
  return with_node(node, kRecordEventNode, [&](const Caller& caller, GraphNode& own) -> CUresult {
    if (caller.driver->events.find(event) == nullptr) return kInvalidValue;
    own.recorded = event;
    return kSuccess;
  });
}
CUresult cuGraphEventWaitNodeSetEvent(GraphNode* node, Event* event) {
  return with_node(node, kWaitEventNode, [&](const Caller& caller, GraphNode& own) -> CUresult {
    if (caller.driver->events.find(event) == nullptr) return kInvalidValue;
    own.awaited = event;
    return kSuccess;
  });
}
CUresult cuGraphExecEventRecordNodeSetEvent(GraphExec* executable, GraphNode* node, Event* event) {
  return with_ready_node(executable, node, kRecordEventNode,
                         [&](const Caller& caller, GraphExec& ready, std::size_t at) -> CUresult {
                           if (caller.driver->events.find(event) == nullptr) return kInvalidValue;
                           ready.nodes[at].recorded = event;
                           return kSuccess;
                         });
}
CUresult cuGraphExecEventWaitNodeSetEvent(GraphExec* executable, GraphNode* node, Event* event) {
  return with_ready_node(executable, node, kWaitEventNode,
                         [&](const Caller& caller, GraphExec& ready, std::size_t at) -> CUresult {
                           if (caller.driver->events.find(event) == nullptr) return kInvalidValue;
                           ready.nodes[at].awaited = event;
                           return kSuccess;
                         });
}

CUresult cuGraphMemAllocNodeGetParams(GraphNode* node, cudaMemAllocNodeParams* parameters) {
  return with_node(node, kAllocNode, [&](const Caller& caller, const GraphNode& own) -> CUresult {
    const Allocation* found = find_allocation(*caller.driver, own.address, 1);
    if (parameters == nullptr || found == nullptr) return kInvalidValue;
    *parameters = {};
    parameters->pool.type = 1;  // pinned, as all of a device's memory
    parameters->pool.location = {.type = 1, .id = found->ordinal};
    parameters->bytes = found->size_bytes;
    parameters->address = reinterpret_cast<void*>(own.address);
    return kSuccess;
  });
}
CUresult cuGraphMemFreeNodeGetParams(GraphNode* node, CUdeviceptr* address) {
  return with_node(node, kFreeNode, [&](const Caller&, const GraphNode& own) -> CUresult {
    if (address == nullptr) return kInvalidValue;
    *address = own.address;
    return kSuccess;
  });
}

}  // namespace meshbed::sim::cuda
