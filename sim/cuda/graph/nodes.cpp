// Nodes that a program adds to a graph (cuGraphAdd*Node), and what their parameters mean. CUDA 13.0's driver API,
// "Graph Management"; cuda.h's comments.

#include "sim/cuda/graph/nodes.h"

#include <algorithm>
#include <cstring>

namespace meshbed::sim::cuda {
namespace {

Graph* find_inside(const Graph& graph, const Graph* handle) {
  for (const auto& node : graph.nodes) {
    if (node->child == nullptr) continue;
    if (node->child.get() == handle) return node->child.get();
    if (Graph* found = find_inside(*node->child, handle)) return found;
  }
  return nullptr;
}

/// Calls see(graph) for each graph of the program until one call returns true.
template <typename See>
bool any_graph(const Driver& driver, const See& see) {
  if (driver.graphs.any([&](Graph& graph) { return see(graph); })) return true;
  for (const auto& context : driver.contexts) {
    for (const auto& stream : context->streams) {
      if (stream->capture != nullptr && stream->capture->graph != nullptr && see(*stream->capture->graph)) return true;
    }
  }
  return false;
}

/// It stands in another one.
bool is_child(const Driver& driver, Graph* handle) {
  const Graph* found = find_graph(driver, handle);
  return found != nullptr && driver.graphs.find(handle) == nullptr && !is_recorded(driver, *found);
}

bool place_in(Graph& graph, const GraphNode* node, NodePlace& place) {
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    if (graph.nodes[index].get() == node) {
      place = {.graph = &graph, .index = index};
      return true;
    }
    Graph* child = graph.nodes[index]->child.get();
    if (child != nullptr && place_in(*child, node, place)) return true;
  }
  return false;
}

CUresult event_node(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count, Event* event,
                    bool waits) {
  return in_context([&](const Caller& caller) -> CUresult {
    if (caller.driver->events.find(event) == nullptr) return kInvalidValue;
    GraphNode made{.task = Marker{}};
    (waits ? made.awaited : made.recorded) = event;
    return add_node(caller, node, graph, before, count, std::move(made));
  });
}

}  // namespace

int type_of(const GraphNode& node) {
  const Task& task = node.task;
  if (node.memory != 0) return node.memory == 1 ? kAllocNode : kFreeNode;
  if (node.child != nullptr) return kChildNode;
  if (node.recorded != nullptr) return kRecordEventNode;
  if (node.awaited != nullptr) return kWaitEventNode;
  if (std::holds_alternative<KernelLaunch>(task)) return kKernelNode;
  if (std::holds_alternative<Copy>(task)) return kCopyNode;
  if (std::holds_alternative<Fill>(task)) return kFillNode;
  if (std::holds_alternative<HostCall>(task)) return kHostNode;
  if (std::holds_alternative<WaitValue>(task) || std::holds_alternative<Action>(task)) return kMemoryOperationsNode;
  return kEmptyNode;
}

Graph* find_graph(const Driver& driver, Graph* handle) {
  if (handle == nullptr) return nullptr;
  if (Graph* found = driver.graphs.find(handle)) return found;
  Graph* found = nullptr;
  any_graph(driver, [&](Graph& graph) {
    found = &graph == handle ? &graph : find_inside(graph, handle);
    return found != nullptr;
  });
  return found;
}

bool is_recorded(const Driver& driver, const Graph& graph) {
  for (const auto& context : driver.contexts) {
    for (const auto& stream : context->streams) {
      if (stream->capture != nullptr && stream->capture->graph.get() == &graph) return true;
    }
  }
  return false;
}

bool has_memory(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node->memory != 0 || (node->child != nullptr && has_memory(*node->child));
  });
}

bool has_free(const Graph& graph, CUdeviceptr address) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const auto& node) { return node->memory == 2 && node->address == address; });
}

std::unique_ptr<Graph> clone_of(const Graph& graph) {
  auto clone = std::make_unique<Graph>();
  clone->objects = graph.objects;
  for (const auto& node : graph.nodes) {
    GraphNode& made = *clone->nodes.emplace_back(std::make_unique<GraphNode>(*node));
    made.original = node.get();
    made.id = system().next_id++;
    made.arguments.clear();  // they point into the other one
    if (node->child != nullptr) made.child = clone_of(*node->child);
  }
  return clone;
}

NodePlace find_node(const Driver& driver, const GraphNode* node) {
  NodePlace place;
  if (node != nullptr) any_graph(driver, [&](Graph& graph) { return place_in(graph, node, place); });
  return place;
}

std::size_t index_of(const Graph& graph, const GraphNode* node) {
  const auto& nodes = graph.nodes;
  return static_cast<std::size_t>(
      std::find_if(nodes.begin(), nodes.end(), [node](const auto& one) { return one.get() == node; }) - nodes.begin());
}

CUresult add_node(const Caller& caller, GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                  GraphNode made) {
  Graph* found = find_graph(*caller.driver, graph);
  if (found == nullptr || node == nullptr || (count > 0 && before == nullptr)) return kInvalidValue;
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t place = index_of(*found, before[index]);
    const bool twice = std::find(made.before.begin(), made.before.end(), place) != made.before.end();
    if (place == found->nodes.size() || twice) return kInvalidValue;
    made.before.push_back(place);
  }
  made.id = system().next_id++;
  *node = found->nodes.emplace_back(std::make_unique<GraphNode>(std::move(made))).get();
  return kSuccess;
}

CUresult refuse_edge_data(const void* edges, std::size_t count) {
  if (edges == nullptr) return kSuccess;
  const auto* bytes = static_cast<const unsigned char*>(edges);
  const bool plain =
      std::all_of(bytes, bytes + count * sizeof(CUgraphEdgeData), [](unsigned char one) { return one == 0; });
  return plain ? kSuccess : refuse("a graph's edge of another kind than that one node ends before the next begins");
}

CUresult kernel_task(const Caller& caller, const CUDA_KERNEL_NODE_PARAMS_v1* parameters, Task& task) {
  if (parameters == nullptr) return kInvalidValue;
  KernelLaunch made;
  const CUresult error = prepare_launch(caller, parameters->function, parameters->grid, parameters->block,
                                        parameters->shared_bytes, parameters->arguments, parameters->extra, made);
  // Whether it is cooperative is an attribute of the node and none of its parameters.
  const auto* const was = std::get_if<KernelLaunch>(&task);
  if (was != nullptr) made.cooperative = was->cooperative;
  if (was != nullptr && was->has_cluster && error == kSuccess) {
    if (const CUresult misfit = set_cluster(made, was->cluster)) return misfit;
  }
  if (error == kSuccess) task = std::move(made);
  return driver_code_of(error);
}

CUresult kernel_task(const Caller& caller, const cudaKernelNodeParams* parameters, Task& task) {
  if (parameters == nullptr) return kInvalidValue;
  CUDA_KERNEL_NODE_PARAMS_v1 same{.function = nullptr,
                                  .grid = {parameters->grid.x, parameters->grid.y, parameters->grid.z},
                                  .block = {parameters->block.x, parameters->block.y, parameters->block.z},
                                  .shared_bytes = parameters->shared_bytes,
                                  .arguments = parameters->arguments,
                                  .extra = parameters->extra};
  if (const CUresult error = kernel_of(parameters->function, same.function)) return error;
  return kernel_task(caller, &same, task);
}

CUresult launch_of(const CUDA_KERNEL_NODE_PARAMS_v2* parameters, CUDA_KERNEL_NODE_PARAMS_v1& launch) {
  if (parameters == nullptr) return kInvalidValue;
  launch = parameters->launch;
  if (launch.function != nullptr) return kSuccess;  // as documented: only without one is the rest looked at
  launch.function = parameters->kernel;
  return in_context([&](const Caller& caller) { return same_context(caller, parameters->context); });
}

CUresult same_context(const Caller& caller, Context* context) {
  if (context == nullptr || context == caller.context) return kSuccess;
  if (find_context(*caller.driver, context) == nullptr) return kInvalidContext;
  return refuse("a graph's node in another context than the current one");
}

CUresult copy_task(const Caller& caller, const CUDA_MEMCPY3D* parameters, Task& task) {
  Box box;
  Copy copy;
  if (parameters == nullptr) return kInvalidValue;
  if (const CUresult error = box_of(*parameters, box)) return error;
  if (const CUresult error = make_copy(caller, box, copy)) return error;
  task = std::move(copy);
  return kSuccess;
}

CUresult fill_task(const Caller& caller, const cudaMemsetParams* parameters, Task& task) {
  if (parameters == nullptr) return kInvalidValue;
  Fill fill;
  const CUresult error =
      make_fill(caller, reinterpret_cast<CUdeviceptr>(parameters->target), parameters->value, parameters->element_bytes,
                parameters->width, parameters->height, parameters->pitch, fill);
  if (error == kSuccess) task = std::move(fill);
  return error;
}

CUresult host_task(const cudaHostNodeParams* parameters, Task& task) {
  if (parameters == nullptr || parameters->function == nullptr) return kInvalidValue;
  task = HostCall{.function = parameters->function, .data = parameters->data};
  return kSuccess;
}

CUresult cuGraphAddEmptyNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count) {
  return in_context(
      [&](const Caller& caller) { return add_node(caller, node, graph, before, count, {.task = Marker{}}); });
}

CUresult cuGraphAddKernelNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    GraphNode made;
    if (const CUresult error = kernel_task(caller, parameters, made.task)) return error;
    return add_node(caller, node, graph, before, count, std::move(made));
  });
}

CUresult cuGraphAddKernelNode_v2(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  CUDA_KERNEL_NODE_PARAMS_v1 launch{};
  const CUresult error = launch_of(parameters, launch);
  return error != kSuccess ? error : cuGraphAddKernelNode(node, graph, before, count, &launch);
}

CUresult cuGraphAddMemcpyNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                              const CUDA_MEMCPY3D* parameters, Context* context) {
  return in_context([&](const Caller& caller) -> CUresult {
    GraphNode made;
    if (const CUresult error = same_context(caller, context)) return error;
    if (const CUresult error = copy_task(caller, parameters, made.task)) return error;
    return add_node(caller, node, graph, before, count, std::move(made));
  });
}

CUresult cuGraphAddMemsetNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                              const cudaMemsetParams* parameters, Context* context) {
  return in_context([&](const Caller& caller) -> CUresult {
    GraphNode made;
    if (const CUresult error = same_context(caller, context)) return error;
    if (const CUresult error = fill_task(caller, parameters, made.task)) return error;
    return add_node(caller, node, graph, before, count, std::move(made));
  });
}

CUresult cuGraphAddHostNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                            const cudaHostNodeParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    GraphNode made;
    if (const CUresult error = host_task(parameters, made.task)) return error;
    return add_node(caller, node, graph, before, count, std::move(made));
  });
}

// As documented: the child is cloned, and what becomes of the graph later changes nothing here.
CUresult cuGraphAddChildGraphNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                  Graph* child) {
  return in_context([&](const Caller& caller) -> CUresult {
    const Graph* found = find_graph(*caller.driver, child);
    if (found == nullptr || child == graph) return kInvalidValue;
    if (has_memory(*found)) return refuse("cuGraphAddChildGraphNode of a graph that gives memory");
    return add_node(caller, node, graph, before, count, {.task = Marker{}, .child = clone_of(*found)});
  });
}

CUresult cuGraphAddEventRecordNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                   Event* event) {
  return event_node(node, graph, before, count, event, false);
}
CUresult cuGraphAddEventWaitNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                 Event* event) {
  return event_node(node, graph, before, count, event, true);
}

CUresult cuGraphAddMemAllocNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                                cudaMemAllocNodeParams* parameters) {
  return in_context([&](const Caller& caller) -> CUresult {
    constexpr int kPinned = 1, kManaged = 2, kOnDevice = 1;  // CUmemAllocationType, CUmemLocationType
    if (parameters == nullptr || parameters->bytes == 0) return kInvalidValue;
    const auto& pool = parameters->pool;
    if ((pool.type != kPinned && pool.type != kManaged) || pool.location.type == 0) return kInvalidValue;
    if (pool.location.type == kOnDevice && find_device(*caller.driver, pool.location.id) == nullptr)
      return kInvalidValue;
    if (is_child(*caller.driver, graph)) return refuse("a node that gives memory in a child graph");
    if (pool.type != kPinned || pool.location.type != kOnDevice || pool.location.id != caller.context->ordinal)
      return refuse("a graph's memory of another kind or place than the current device's own");
    CUdeviceptr address = 0;
    if (const CUresult error = allocate_for_graph(caller, parameters->bytes, address)) return error;
    GraphNode made{.task = Marker{}, .memory = 1, .address = address};
    made.gives = GraphMemory::of(*caller.driver, address);
    if (const CUresult error = add_node(caller, node, graph, before, count, std::move(made))) return error;
    parameters->address = reinterpret_cast<void*>(address);
    return kSuccess;
  });
}

CUresult cuGraphAddMemFreeNode(GraphNode** node, Graph* graph, GraphNode* const* before, std::size_t count,
                               CUdeviceptr address) {
  return in_context([&](const Caller& caller) -> CUresult {
    const auto found = caller.driver->allocations.find(address);
    if (found == caller.driver->allocations.end() || !found->second.of_graph) return kInvalidValue;
    if (is_child(*caller.driver, graph)) return refuse("a node that frees memory in a child graph");
    const Graph* owner = find_graph(*caller.driver, graph);
    if (owner != nullptr && has_free(*owner, address)) return kInvalidValue;  // as documented: once in a graph
    return add_node(caller, node, graph, before, count, {.task = Marker{}, .memory = 2, .address = address});
  });
}

}  // namespace meshbed::sim::cuda
