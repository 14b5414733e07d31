// Graphs made ready and launched (cuGraphInstantiate*, cuGraphLaunch), and made ready anew without another one
// (cuGraphExecUpdate).

#include <algorithm>
#include <cstdio>
#include <utility>

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

/// The graph's nodes behind those that are there. `head`: after which all of them come.
void append(GraphExec& made, const Graph& graph, const std::size_t* head) {
  std::vector<std::size_t> begins, ends;
  for (const auto& node : graph.nodes) {
    const std::size_t begin = made.nodes.size();
    made.nodes.push_back(*node);
    made.nodes.back().before.clear();
    made.origins.push_back(node.get());
    made.inside.push_back(0);
    if (node->child != nullptr) {
      // Its nodes stand in line, so that this has what the child refers to and no more.
      made.nodes.back().child = std::make_shared<Graph>();
      made.nodes.back().child->objects = node->child->objects;
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

/// A node of a cycle: walking back from node to node among those without a place in the order ends in a cycle.
const GraphNode* node_of_circle(const GraphExec& executable, const std::vector<std::size_t>& order) {
  std::vector<bool> placed(executable.nodes.size(), false);
  for (const std::size_t index : order) placed[index] = true;
  auto at = static_cast<std::size_t>(std::find(placed.begin(), placed.end(), false) - placed.begin());
  for (std::size_t step = 0; step < executable.nodes.size() || executable.origins[at] == nullptr; ++step) {
    const auto& before = executable.nodes[at].before;
    at = *std::find_if(before.begin(), before.end(), [&](std::size_t one) { return !placed[one]; });
  }
  return executable.origins[at];
}

/// `failed`: the node that is to blame.
CUresult make_executable(const Graph& graph, std::unique_ptr<GraphExec>& made, const GraphNode** failed = nullptr) {
  made = std::make_unique<GraphExec>();
  made->objects = graph.objects;
  append(*made, graph, nullptr);
  made->events = in_order(made->nodes);
  if (made->events.size() < made->nodes.size()) {
    if (failed != nullptr) *failed = node_of_circle(*made, made->events);
    return kInvalidValue;
  }
  std::erase_if(made->events, [&](std::size_t index) { return !has_event(made->nodes[index]); });
  return kSuccess;
}

// cuda.h's CUgraphInstantiate_flags.
constexpr unsigned long long kFreeOnLaunch = 1, kUpload = 2, kDeviceLaunch = 4, kNodePriorities = 8;

CUresult instantiate(const Caller& caller, Graph& graph, unsigned long long flags, GraphExec** executable,
                     const GraphNode** failed) {
  constexpr unsigned long long kKnown = kFreeOnLaunch | kDeviceLaunch | kNodePriorities;
  constexpr unsigned long long kNotBoth = kFreeOnLaunch | kDeviceLaunch;
  if (executable == nullptr || is_recorded(*caller.driver, graph)) return kInvalidValue;
  if ((flags & ~kKnown) != 0 || (flags & kNotBoth) == kNotBoth) return kInvalidValue;
  if ((flags & kDeviceLaunch) != 0) return refuse("a graph that is made ready for launches by the device");
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  // A graph that allocates memory has one executable at a time; an H200 returns 801.
  if (has_memory(graph) && !graph.ready.expired()) return kNotSupported;
  std::unique_ptr<GraphExec> made;
  if (const CUresult error = make_executable(graph, made, failed)) return error;
  made->flags = flags;
  graph.ready = made->lives;
  *executable = caller.driver->executables.add(std::move(made));
  return kSuccess;
}

CUresult instantiate(GraphExec** executable, Graph* handle, unsigned long long flags, GraphNode** failed) {
  const GraphNode* to_blame = nullptr;
  const CUresult error = with_graph(handle, [&](const Caller& caller, Graph& graph) {
    return instantiate(caller, graph, flags, executable, &to_blame);
  });
  if (failed != nullptr) *failed = const_cast<GraphNode*>(to_blame);
  return error;
}

bool has_objects(const GraphExec& executable) {
  return !executable.objects.empty() ||
         std::any_of(executable.nodes.begin(), executable.nodes.end(),
                     [](const GraphNode& node) { return node.child != nullptr && !node.child->objects.empty(); });
}

bool gives_memory(const GraphExec& executable) {
  return std::any_of(executable.nodes.begin(), executable.nodes.end(),
                     [](const GraphNode& node) { return node.gives != nullptr; });
}

/// What an executable no longer refers to: launches that are under way may use it until they have ended.
void keep_until_ended(const WorkRef& last, GraphExec old) {
  if (last == nullptr || last->ended() || !(has_objects(old) || gives_memory(old))) return;
  Context& context = *last->context;
  WorkRef before = last;
  if (has_objects(old)) {
    // Objects are destroyed on the thread for host functions, which has to be there: where a work ends none can be
    // started.
    const WorkRef turn = make_work(context, HostCall{.function = [](void*) {}}, 0);
    put_before(before, turn);
    release(turn);
    before = turn;
  }
  const WorkRef keeper = make_work(context, Action{[kept = std::make_shared<GraphExec>(std::move(old))] {}}, 0);
  put_before(before, keeper);
  release(keeper);
}

/// As a graph once more: what a stream that records has of a launch.
std::shared_ptr<Graph> graph_of(const GraphExec& executable) {
  auto graph = std::make_shared<Graph>();
  graph->objects = executable.objects;
  for (const GraphNode& node : executable.nodes) {
    if (node.child != nullptr) graph->objects.insert(node.child->objects.begin(), node.child->objects.end());
    graph->nodes.push_back(std::make_unique<GraphNode>(node));
    graph->nodes.back()->child = nullptr;  // its nodes stand here
    if (!node.enabled) graph->nodes.back()->task = Marker{};
  }
  return graph;
}

/// What differs between what is ready and what shall be; result 0: only what nodes do.
cudaGraphExecUpdateResultInfo difference(const GraphExec& ready, const GraphExec& wanted) {
  if (ready.nodes.size() != wanted.nodes.size()) return {.result = kTopologyChanged, .node = nullptr, .from = nullptr};
  for (std::size_t index = 0; index < ready.nodes.size(); ++index) {
    const GraphNode &was = ready.nodes[index], &now = wanted.nodes[index];
    auto* node = const_cast<GraphNode*>(wanted.origins[index]);
    if (type_of(was) != type_of(now)) return {.result = kTypeChanged, .node = node, .from = nullptr};
    if (was.before == now.before) {
      const UpdateResult change = change_of(was.task, now.task);
      if (change != kUpdated) return {.result = change, .node = node, .from = nullptr};
      continue;
    }
    // The first edge of it that is new.
    const auto is_new = [&was](std::size_t one) {
      return std::find(was.before.begin(), was.before.end(), one) == was.before.end();
    };
    const auto from = std::find_if(now.before.begin(), now.before.end(), is_new);
    auto* source = from != now.before.end() ? const_cast<GraphNode*>(wanted.origins[*from]) : nullptr;
    return {.result = kTopologyChanged, .node = node, .from = source};
  }
  return {.result = kUpdated, .node = nullptr, .from = nullptr};
}

/// The node is from now on `now`, which becomes what it was; whose it is, and that it is switched off, stays.
void take_over(GraphNode& own, GraphNode& now) {
  now.before = own.before;
  now.enabled = own.enabled;
  now.id = own.id;
  std::swap(own, now);
}

/// The events that it records and awaits are still there.
CUresult check_events(const Driver& driver, const GraphExec& executable) {
  for (const std::size_t index : executable.events) {
    const GraphNode& node = executable.nodes[index];
    if (driver.events.find(node.recorded != nullptr ? node.recorded : node.awaited) == nullptr) return kInvalidHandle;
  }
  return kSuccess;
}

/// Some node of it frees that memory.
bool has_free(const GraphExec& executable, CUdeviceptr address) {
  return std::any_of(executable.nodes.begin(), executable.nodes.end(),
                     [&](const GraphNode& node) { return node.memory == 2 && node.address == address; });
}

/// Memory that the graph allocated and that was not freed cannot be allocated again.
CUresult check_memory(const Driver& driver, const GraphExec& executable) {
  if ((executable.flags & kFreeOnLaunch) != 0) return kSuccess;
  for (const GraphNode& node : executable.nodes) {
    if (node.memory != 1) continue;
    const auto found = driver.allocations.find(node.address);
    if (found != driver.allocations.end() && found->second.given) return kInvalidValue;
  }
  return kSuccess;
}

/// A launch of it, until `last`: what it gives, and does not free itself, the program has from now on; what it frees of
/// another graph's is there until it has ended.
void give_memory(Driver& driver, const GraphExec& executable, const WorkRef& last) {
  for (const GraphNode& node : executable.nodes) {
    if (node.memory == 0) continue;
    const auto found = driver.allocations.find(node.address);
    if (found == driver.allocations.end()) continue;
    Allocation& memory = found->second;
    memory.backed = true;
    const bool was_given = std::exchange(memory.given, node.memory == 1 && !has_free(executable, node.address));
    if (node.memory != 2 || !was_given) continue;
    const WorkRef keeper = make_work(*last->context, Action{[kept = memory.graph_memory.lock()] {}}, 0);
    put_before(last, keeper);
    release(keeper);
  }
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
  return instantiate(executable, handle, flags, nullptr);
}

// CUDA 10's and 11's: a node that is to blame, and a text.
CUresult cuGraphInstantiate(GraphExec** executable, Graph* graph, GraphNode** failed, char* text, std::size_t bytes) {
  const CUresult error = instantiate(executable, graph, 0, failed);
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
  if (parameters == nullptr) return kInvalidValue;
  GraphExec* made = nullptr;
  CUresult error =
      instantiate(executable != nullptr ? &made : nullptr, graph, parameters->flags & ~kUpload, &parameters->failed);
  parameters->result = error == kSuccess ? kDone : parameters->failed != nullptr ? kNoStructure : kError;
  if (error != kSuccess) return error;
  if ((parameters->flags & kUpload) != 0) error = cuGraphUpload(made, parameters->upload_stream);
  if (error != kSuccess) {
    parameters->result = kError;
    cuGraphExecDestroy(made);
    return error;
  }
  *executable = made;
  return kSuccess;
}

CUresult cuGraphExecDestroy(GraphExec* executable) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  GraphExec* found = caller.driver->executables.find(executable);
  if (found == nullptr) return kInvalidValue;
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  const WorkRef last = found->last;
  found->lives.reset();  // its graph can be made ready again
  keep_until_ended(last, std::move(*found));
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
  if (const CUresult error = check_memory(*caller.driver, *found)) return error;
  if (stream->capture != nullptr) return record_node(*stream, {.task = Marker{}, .child = graph_of(*found)});
  const models::GpuModel& model = *stream->context->device->model;
  host().sleep(model.graph_call_ps);
  // Another thread may have destroyed them meanwhile.
  stream = find_stream_with_room(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (caller.driver->executables.find(executable) == nullptr) return kInvalidValue;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (const CUresult error = check_events(*caller.driver, *found)) return error;
  const bool follows_itself = found->last == nullptr || found->last->ended() || found->last == stream->tail;
  WorkRef head;
  if (const CUresult error = submit(*stream, Marker{}, model.launch_delay_ps, &head)) return error;
  stream->context->queues[stream->queue].launches.push_back(head);
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
    const WorkRef work = make_work(*stream->context, Task(node.enabled ? node.task : Task{Marker{}}), 0);
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
  give_memory(*caller.driver, *found, tail);
  if (!follows_itself) release(gate);
  for (const WorkRef& work : works) release(work);
  release(tail);
  return kSuccess;
}

CUresult cuGraphExecUpdate_v2(GraphExec* executable, Graph* handle, cudaGraphExecUpdateResultInfo* result) {
  if (result == nullptr) return kInvalidValue;
  *result = {.result = kUpdateError, .node = nullptr, .from = nullptr};
  return with_graph(handle, [&](const Caller& caller, const Graph& graph) -> CUresult {
    GraphExec* ready = caller.driver->executables.find(executable);
    if (ready == nullptr) return kInvalidValue;
    std::unique_ptr<GraphExec> wanted;
    if (make_executable(graph, wanted) != kSuccess) return kGraphExecUpdateFailure;
    *result = difference(*ready, *wanted);
    if (result->result != kUpdated) return kGraphExecUpdateFailure;
    for (std::size_t index = 0; index < ready->nodes.size(); ++index) {
      take_over(ready->nodes[index], wanted->nodes[index]);
    }
    // What it refers to is what the graph refers to (CUDA C++ Programming Guide 13.0, "CUDA User Objects").
    std::swap(ready->objects, wanted->objects);
    keep_until_ended(ready->last, std::move(*wanted));
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
                             if (change_of(was.task, now.task) != kUpdated) return kInvalidValue;
                           }
                           wanted.nodes[head] = ready.nodes[head];
                           wanted.nodes[head].child = std::make_shared<Graph>();
                           wanted.nodes[head].child->objects = graph->objects;
                           for (std::size_t index = head; index < wanted.nodes.size(); ++index) {
                             take_over(ready.nodes[index], wanted.nodes[index]);
                           }
                           keep_until_ended(ready.last, std::move(wanted));
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
