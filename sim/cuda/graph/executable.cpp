// Graphs made ready and launched (cuGraphInstantiate*, cuGraphLaunch), and made ready anew without another one
// (cuGraphExecUpdate).

#include <algorithm>
#include <cstdio>

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

/// The graph's nodes behind those that are there. `head`: after which all of them come.
void append(GraphExec& made, const Graph& graph, const std::size_t* head) {
  std::vector<std::size_t> begins, ends;
  made.objects.insert(graph.objects.begin(), graph.objects.end());
  for (const auto& node : graph.nodes) {
    const std::size_t begin = made.nodes.size();
    made.nodes.push_back(*node);
    made.nodes.back().before.clear();
    made.origins.push_back(node.get());
    made.inside.push_back(0);
    if (node->child != nullptr) {
      append(made, *node->child, &begin);
      made.inside[begin] = made.nodes.size() - begin - 1;
      GraphNode end{.task = Marker{}};
      for (std::size_t index = begin; index < made.nodes.size(); ++index) end.before.push_back(index);
      made.nodes.push_back(std::move(end));
      made.origins.push_back(nullptr);
      made.inside.push_back(0);
    }
    begins.push_back(begin);
    ends.push_back(made.nodes.size() - 1);
  }
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    auto& before = made.nodes[begins[index]].before;
    for (const std::size_t one : graph.nodes[index]->before) before.push_back(ends[one]);
    if (before.empty() && head != nullptr) before.push_back(*head);
  }
}

/// Each node behind those that come before it; fewer than there are: some come before themselves.
std::vector<std::size_t> in_order(const std::vector<GraphNode>& nodes) {
  std::vector<std::size_t> before(nodes.size(), 0), ready;
  std::vector<std::vector<std::size_t>> after(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    before[node] = nodes[node].before.size();
    for (const std::size_t one : nodes[node].before) after[one].push_back(node);
    if (before[node] == 0) ready.push_back(node);
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    for (const std::size_t one : after[ready[next]]) {
      if (--before[one] == 0) ready.push_back(one);
    }
  }
  return ready;
}

bool has_event(const GraphNode& node) { return node.recorded != nullptr || node.awaited != nullptr; }

CUresult make_executable(const Graph& graph, std::unique_ptr<GraphExec>& made) {
  made = std::make_unique<GraphExec>();
  append(*made, graph, nullptr);
  made->events = in_order(made->nodes);
  if (made->events.size() < made->nodes.size()) return kInvalidValue;
  std::erase_if(made->events, [&](std::size_t index) { return !has_event(made->nodes[index]); });
  return kSuccess;
}

CUresult instantiate(const Caller& caller, const Graph& graph, unsigned long long flags, GraphExec** executable) {
  constexpr unsigned long long kUpload = 2;
  constexpr unsigned long long kHints = 1 | kUpload | 8;  // free memory on launch, upload, use the nodes' priorities
  if (executable == nullptr || is_recorded(*caller.driver, graph)) return kInvalidValue;
  if ((flags & ~kHints) != 0) return refuse("cuGraphInstantiateWithFlags with flags " + std::to_string(flags));
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  std::unique_ptr<GraphExec> made;
  if (const CUresult error = make_executable(graph, made)) return error;
  // As documented: a graph that gives memory is ready once at a time.
  for (const GraphNode& node : made->nodes) {
    if (node.memory == 1 && is_given_by_executable(*caller.driver, node.address)) return kNotSupported;
  }
  made->flags = flags & ~kUpload;
  *executable = caller.driver->executables.add(std::move(made));
  return kSuccess;
}

/// As a graph once more: what a stream that records has of a launch.
std::shared_ptr<Graph> graph_of(const GraphExec& executable) {
  auto graph = std::make_shared<Graph>();
  graph->objects = executable.objects;
  for (const GraphNode& node : executable.nodes) {
    graph->nodes.push_back(std::make_unique<GraphNode>(node));
    graph->nodes.back()->child = nullptr;  // its nodes stand here
    if (!node.enabled) graph->nodes.back()->task = Marker{};
  }
  return graph;
}

/// What differs between what is ready and what shall be; result 0: only what nodes do.
cudaGraphExecUpdateResultInfo difference(const GraphExec& ready, const GraphExec& wanted) {
  constexpr int kDone = 0, kShapeDiffers = 2, kTypeDiffers = 3;
  if (ready.nodes.size() != wanted.nodes.size()) return {.result = kShapeDiffers, .node = nullptr, .from = nullptr};
  for (std::size_t index = 0; index < ready.nodes.size(); ++index) {
    const GraphNode &was = ready.nodes[index], &now = wanted.nodes[index];
    auto* node = const_cast<GraphNode*>(wanted.origins[index]);
    if (type_of(was) != type_of(now)) return {.result = kTypeDiffers, .node = node, .from = nullptr};
    if (was.before == now.before) continue;
    // The first edge of it that is new.
    const auto is_new = [&was](std::size_t one) {
      return std::find(was.before.begin(), was.before.end(), one) == was.before.end();
    };
    const auto from = std::find_if(now.before.begin(), now.before.end(), is_new);
    auto* source = from != now.before.end() ? const_cast<GraphNode*>(wanted.origins[*from]) : nullptr;
    return {.result = kShapeDiffers, .node = node, .from = source};
  }
  return {.result = kDone, .node = nullptr, .from = nullptr};
}

/// Node `at` is from now on `now`; that it is switched off stays.
void take_over(GraphExec& executable, std::size_t at, GraphNode now) {
  GraphNode& own = executable.nodes[at];
  now.before = own.before;
  now.enabled = own.enabled;
  own = std::move(now);
}

/// The events that it records and awaits are still there.
CUresult check_events(const Driver& driver, const GraphExec& executable) {
  for (const std::size_t index : executable.events) {
    const GraphNode& node = executable.nodes[index];
    if (driver.events.find(node.recorded != nullptr ? node.recorded : node.awaited) == nullptr) return kInvalidHandle;
  }
  return kSuccess;
}

/// What a launch does to the memory that its graph gives and takes; kInvalidValue: it gives what it gave before, and
/// nobody has freed that.
CUresult exchange_memory(Driver& driver, const GraphExec& executable) {
  constexpr unsigned long long kFreeOnLaunch = 1;
  const auto each = [&](int memory, const auto& use) {
    for (const GraphNode& node : executable.nodes) {
      if (node.memory != memory) continue;
      const auto found = driver.allocations.find(node.address);
      if (found != driver.allocations.end() && !use(found->second)) return false;
    }
    return true;
  };
  const bool free = (executable.flags & kFreeOnLaunch) != 0 ||
                    each(1, [](const Allocation& allocation) { return !allocation.given; });
  if (!free) return kInvalidValue;
  each(1, [](Allocation& allocation) { return allocation.given = allocation.backed = true; });
  each(2, [](Allocation& allocation) {
    allocation.given = false;
    return true;
  });
  return kSuccess;
}

/// Runs use(node) for a node that can be switched off.
template <typename Use>
CUresult with_switch(GraphExec* executable, GraphNode* node, const Use& use) {
  for (const NodeType type : {kKernelNode, kCopyNode, kFillNode}) {
    const CUresult error =
        with_ready_node(executable, node, type, [&](const Caller&, GraphExec& ready, std::size_t at) {
          use(ready.nodes[at]);
          return kSuccess;
        });
    if (error != kInvalidValue) return error;
  }
  return kInvalidValue;
}

}  // namespace

bool is_given_by_executable(const Driver& driver, CUdeviceptr address) {
  return driver.executables.any([address](const GraphExec& one) {
    return std::any_of(one.nodes.begin(), one.nodes.end(),
                       [address](const GraphNode& node) { return node.memory == 1 && node.address == address; });
  });
}

CUresult cuGraphInstantiateWithFlags(GraphExec** executable, Graph* handle, unsigned long long flags) {
  return with_graph(
      handle, [&](const Caller& caller, const Graph& graph) { return instantiate(caller, graph, flags, executable); });
}

// CUDA 10's and 11's: a node that is to blame, and a text.
CUresult cuGraphInstantiate(GraphExec** executable, Graph* graph, GraphNode** failed, char* text, std::size_t bytes) {
  const CUresult error = cuGraphInstantiateWithFlags(executable, graph, 0);
  if (failed != nullptr) *failed = nullptr;
  if (text != nullptr && bytes > 0) {
    std::snprintf(text, bytes, "%s", error != kSuccess ? "no graph, or its edges make a circle" : "");
  }
  return error;
}
CUresult cuGraphInstantiate_v2(GraphExec** executable, Graph* graph, GraphNode** failed, char* text,
                               std::size_t bytes) {
  return cuGraphInstantiate(executable, graph, failed, text, bytes);
}

CUresult cuGraphInstantiateWithParams(GraphExec** executable, Graph* graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  constexpr int kDone = 0, kError = 1, kNoStructure = 2;
  constexpr unsigned long long kUpload = 2;
  if (parameters == nullptr) return kInvalidValue;
  CUresult error = cuGraphInstantiateWithFlags(executable, graph, parameters->flags);
  parameters->failed = nullptr;
  parameters->result = error == kSuccess ? kDone : error == kInvalidValue ? kNoStructure : kError;
  if (error != kSuccess || (parameters->flags & kUpload) == 0) return error;
  error = cuGraphUpload(*executable, parameters->upload_stream);
  if (error != kSuccess) parameters->result = kError;
  return error;
}

CUresult cuGraphExecDestroy(GraphExec* executable) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  GraphExec* found = caller.driver->executables.find(executable);
  if (found == nullptr) return kInvalidValue;
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  if (!found->objects.empty() && found->last != nullptr && !found->last->ended()) {
    // What is under way may use them until it has ended. The host function is there to have the thread for host
    // functions, on which they are destroyed: where a work ends none can be started.
    Context& context = *found->last->context;
    const WorkRef turn = make_work(context, HostCall{.function = [](void*) {}}, 0);
    const WorkRef keeper = make_work(context, Action{[kept = std::move(found->objects)] {}}, 0);
    put_before(found->last, turn);
    put_before(turn, keeper);
    release(turn);
    release(keeper);
  }
  caller.driver->executables.remove(executable);
  return kSuccess;
}

CUresult cuGraphExecGetFlags(GraphExec* executable, unsigned long long* flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const GraphExec* found = caller.driver->executables.find(executable);
  if (found == nullptr || flags == nullptr) return kInvalidValue;
  *flags = found->flags;
  return kSuccess;
}

// Nothing has to be carried to the device ahead of a launch.
CUresult cuGraphUpload(GraphExec* executable, Stream* handle) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  return caller.driver->executables.find(executable) != nullptr ? kSuccess : kInvalidValue;
}

CUresult cuGraphLaunch(GraphExec* executable, Stream* handle) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  GraphExec* found = caller.driver->executables.find(executable);
  if (found == nullptr) return kInvalidValue;
  if (const CUresult error = check_events(*caller.driver, *found)) return error;
  if (stream->capture != nullptr) return record_node(*stream, {.task = Marker{}, .child = graph_of(*found)});
  if (const CUresult error = exchange_memory(*caller.driver, *found)) return error;
  const models::GpuModel& model = *stream->context->device->model;
  host().sleep(model.graph_call_ps);
  const bool follows_itself = found->last == nullptr || found->last->ended() || found->last == stream->tail;
  WorkRef head;
  if (const CUresult error = submit(*stream, Marker{}, model.launch_delay_ps, &head)) return error;
  // As documented: a launch comes after the ones before of the same executable, in whichever stream they were.
  WorkRef gate = head;
  if (!follows_itself) {
    gate = make_work(*stream->context, Marker{}, 0);
    put_before(head, gate);
    put_before(found->last, gate);
  }
  std::vector<WorkRef> works;
  const WorkRef tail = make_work(*stream->context, Marker{}, 0);
  put_before(gate, tail);
  for (const GraphNode& node : found->nodes) {
    const WorkRef work = make_work(*stream->context, node.enabled ? node.task : Task{Marker{}}, 0);
    work->stream_id = stream->id;
    put_before(gate, work);
    put_before(work, tail);
    works.push_back(work);
  }
  for (std::size_t index = 0; index < works.size(); ++index) {
    for (const std::size_t before : found->nodes[index].before) put_before(works[before], works[index]);
  }
  for (const std::size_t index : found->events) {
    const GraphNode& node = found->nodes[index];
    if (node.awaited != nullptr) put_before(node.awaited->last(), works[index]);
    if (node.recorded == nullptr) continue;
    node.recorded->capture = nullptr;
    node.recorded->last() = works[index];
  }
  stream->tail = found->last = tail;
  if (!follows_itself) release(gate);
  for (const WorkRef& work : works) release(work);
  release(tail);
  return kSuccess;
}

CUresult cuGraphExecUpdate_v2(GraphExec* executable, Graph* handle, cudaGraphExecUpdateResultInfo* result) {
  constexpr int kError = 1, kDone = 0;
  return with_graph(handle, [&](const Caller& caller, const Graph& graph) -> CUresult {
    GraphExec* ready = caller.driver->executables.find(executable);
    if (ready == nullptr || result == nullptr) return kInvalidValue;
    std::unique_ptr<GraphExec> wanted;
    if (make_executable(graph, wanted) != kSuccess) {
      *result = {.result = kError, .node = nullptr, .from = nullptr};
      return kGraphExecUpdateFailure;
    }
    *result = difference(*ready, *wanted);
    if (result->result != kDone) return kGraphExecUpdateFailure;
    for (std::size_t index = 0; index < ready->nodes.size(); ++index) {
      take_over(*ready, index, std::move(wanted->nodes[index]));
    }
    return kSuccess;
  });
}
CUresult cuGraphExecUpdate(GraphExec* executable, Graph* graph, GraphNode** failed, int* result) {
  if (failed == nullptr || result == nullptr) return kInvalidValue;
  cudaGraphExecUpdateResultInfo answer{};
  const CUresult error = cuGraphExecUpdate_v2(executable, graph, &answer);
  *failed = answer.node;
  *result = answer.result;
  return error;
}

CUresult cuGraphExecChildGraphNodeSetParams(GraphExec* executable, GraphNode* node, Graph* child) {
  return with_ready_node(executable, node, kChildNode,
                         [&](const Caller& caller, GraphExec& ready, std::size_t head) -> CUresult {
                           const Graph* graph = find_graph(*caller.driver, child);
                           if (graph == nullptr) return kInvalidValue;
                           // The child, as it would stand where it stands: behind what is there up to its first marker.
                           GraphExec wanted;
                           wanted.nodes.resize(head + 1);
                           wanted.origins.resize(head + 1, nullptr);
                           wanted.inside.resize(head + 1, 0);
                           append(wanted, *graph, &head);
                           if (wanted.nodes.size() - head - 1 != ready.inside[head]) return kInvalidValue;
                           for (std::size_t index = head + 1; index < wanted.nodes.size(); ++index) {
                             const GraphNode &was = ready.nodes[index], &now = wanted.nodes[index];
                             if (type_of(was) != type_of(now) || was.before != now.before) return kInvalidValue;
                           }
                           for (std::size_t index = head + 1; index < wanted.nodes.size(); ++index) {
                             take_over(ready, index, std::move(wanted.nodes[index]));
                           }
                           return kSuccess;
                         });
}

CUresult cuGraphNodeSetEnabled(GraphExec* executable, GraphNode* node, unsigned enabled) {
  return with_switch(executable, node, [&](GraphNode& own) { own.enabled = enabled != 0; });
}
CUresult cuGraphNodeGetEnabled(GraphExec* executable, GraphNode* node, unsigned* enabled) {
  if (enabled == nullptr) return kInvalidValue;
  return with_switch(executable, node, [&](const GraphNode& own) { *enabled = own.enabled ? 1 : 0; });
}

}  // namespace meshbed::sim::cuda
