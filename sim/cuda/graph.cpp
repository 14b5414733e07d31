// Graphs: recording a stream, and doing again what was recorded (cuStreamBeginCapture, cuGraph*).

#include "sim/cuda/graph.h"

#include <algorithm>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// Every work of the recording comes before the end of the stream that it began in.
bool is_joined(const Graph& graph, const std::vector<std::size_t>& tails) {
  std::vector<bool> reached(graph.nodes.size(), false);
  for (const std::size_t tail : tails) reached[tail] = true;
  // Nodes stand behind those that come before them.
  for (std::size_t node = graph.nodes.size(); node-- > 0;) {
    if (!reached[node]) return false;
    for (const std::size_t before : graph.nodes[node]->before) reached[before] = true;
  }
  return true;
}

bool is_acyclic(const Graph& graph) {
  std::vector<std::size_t> before(graph.nodes.size(), 0);
  std::vector<std::vector<std::size_t>> after(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    before[node] = graph.nodes[node]->before.size();
    for (const std::size_t one : graph.nodes[node]->before) after[one].push_back(node);
  }
  std::vector<std::size_t> ready;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (before[node] == 0) ready.push_back(node);
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    for (const std::size_t one : after[ready[next]]) {
      if (--before[one] == 0) ready.push_back(one);
    }
  }
  return ready.size() == graph.nodes.size();
}

void leave(Driver& driver, const std::shared_ptr<Capture>& capture) {
  for (const auto& context : driver.contexts) {
    for (const auto& stream : context->streams) {
      if (stream->capture != capture) continue;
      stream->capture = nullptr;
      stream->capture_tails.clear();
    }
  }
}

}  // namespace

CUresult cuStreamBeginCapture_v2(Stream* handle, int mode) {
  constexpr int kLastMode = 2;  // global, thread-local, relaxed
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (mode < 0 || mode > kLastMode) return kInvalidValue;
  if (stream == stream->context->legacy.get()) return kStreamCaptureUnsupported;
  if (stream->capture != nullptr) return 401;  // ILLEGAL_STATE
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->id = system().next_id++;
  stream->capture_tails.clear();
  return kSuccess;
}

CUresult cuStreamIsCapturing(Stream* handle, int* status) {
  constexpr int kNone = 0, kActive = 1, kInvalidated = 2;
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (status == nullptr) return kInvalidValue;
  *status = stream->capture == nullptr ? kNone : stream->capture->invalid ? kInvalidated : kActive;
  return kSuccess;
}

CUresult cuStreamEndCapture(Stream* handle, Graph** graph) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (graph == nullptr) return kInvalidValue;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return 401;  // ILLEGAL_STATE
  if (capture->origin != stream) return kStreamCaptureUnmatched;
  const bool joined = is_joined(*capture->graph, stream->capture_tails);
  leave(*caller.driver, capture);
  *graph = nullptr;
  if (capture->invalid) return kStreamCaptureInvalidated;
  if (!joined) return kStreamCaptureUnjoined;
  *graph = caller.driver->graphs.add(std::move(capture->graph));
  return kSuccess;
}

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

CUresult cuGraphGetNodes(Graph* graph, GraphNode** nodes, std::size_t* count) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const Graph* found = caller.driver->graphs.find(graph);
  if (found == nullptr || count == nullptr) return kInvalidValue;
  if (nodes == nullptr) {
    *count = found->nodes.size();
    return kSuccess;
  }
  // As documented: places beyond the last node become null.
  for (std::size_t index = 0; index < *count; ++index) {
    nodes[index] = index < found->nodes.size() ? found->nodes[index].get() : nullptr;
  }
  *count = std::min(*count, found->nodes.size());
  return kSuccess;
}

CUresult cuGraphInstantiateWithFlags(GraphExec** executable, Graph* graph, unsigned long long flags) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  const Graph* found = caller.driver->graphs.find(graph);
  if (executable == nullptr || found == nullptr) return kInvalidValue;
  constexpr unsigned long long kHints = 1 | 2 | 8;  // free memory on launch, upload, use the nodes' priorities
  if ((flags & ~kHints) != 0) return refuse("cuGraphInstantiateWithFlags with flags " + std::to_string(flags));
  if (!is_acyclic(*found)) return kInvalidValue;
  auto made = std::make_unique<GraphExec>();
  for (const auto& node : found->nodes) {
    made->nodes.push_back(*node);
    made->origins.push_back(node.get());
  }
  *executable = caller.driver->executables.add(std::move(made));
  return kSuccess;
}

CUresult cuGraphExecDestroy(GraphExec* executable) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  return caller.driver->executables.remove(executable) ? kSuccess : kInvalidValue;
}

CUresult cuGraphLaunch(GraphExec* executable, Stream* handle) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  const GraphExec* found = caller.driver->executables.find(executable);
  if (found == nullptr) return kInvalidValue;
  if (stream->capture != nullptr) return refuse("cuGraphLaunch in a stream that is captured");
  const models::GpuModel& model = *stream->context->device->model;
  host().sleep(model.graph_call_ps);
  WorkRef head;
  if (const CUresult error = submit(*stream, Marker{}, model.launch_delay_ps, &head)) return error;
  std::vector<WorkRef> works;
  const WorkRef tail = make_work(*stream->context, Marker{}, 0);
  put_before(head, tail);
  for (const GraphNode& node : found->nodes) {
    const WorkRef work = make_work(*stream->context, node.task, 0);
    work->stream_id = stream->id;
    put_before(head, work);
    put_before(work, tail);
    works.push_back(work);
  }
  for (std::size_t index = 0; index < works.size(); ++index) {
    for (const std::size_t before : found->nodes[index].before) put_before(works[before], works[index]);
  }
  stream->tail = tail;
  for (const WorkRef& work : works) release(work);
  release(tail);
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
