// Recording a stream: what it is given becomes nodes of a graph (cuStreamBeginCapture and its like).

#include <algorithm>
#include <utility>

#include "sim/cuda/graph/nodes.h"

namespace meshbed::sim::cuda {
namespace {

/// Everything that streams recorded comes before the end of the stream that it began in; what the program has added to
/// the graph need not.
bool is_joined(const Graph& graph, const std::vector<std::size_t>& tails) {
  std::vector<bool> reached(graph.nodes.size(), false);
  std::vector<std::size_t> open = tails;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), graph.nodes[node]->before.begin(), graph.nodes[node]->before.end());
  }
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!reached[node] && graph.nodes[node]->of_stream) return false;
  }
  return true;
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

void excuse(Graph& graph, const std::vector<std::size_t>& left) {
  std::vector<std::size_t> open = left;
  while (!open.empty()) {
    GraphNode& node = *graph.nodes[open.back()];
    open.pop_back();
    if (!std::exchange(node.of_stream, false)) continue;
    open.insert(open.end(), node.before.begin(), node.before.end());
  }
}

CUresult cuStreamBeginCapture_v2(Stream* handle, int mode) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (mode < 0 || mode > kRelaxedMode) return kInvalidValue;
  if (stream == stream->context->legacy.get()) return kStreamCaptureUnsupported;
  if (stream->capture != nullptr) return kIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->mode = mode;
  stream->capture->begun = host().thread();
  stream->capture->id = system().next_id++;
  caller.driver->recordings.push_back(stream->capture);
  stream->capture_tails.clear();
  return kSuccess;
}

CUresult cuStreamIsCapturing(Stream* handle, int* status) {
  constexpr int kNone = 0, kActive = 1, kInvalidated = 2;
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (status == nullptr) return kInvalidValue;
  if (conflicts_with_capture(*stream)) return kStreamCaptureImplicit;  // which goes on all the same
  *status = stream->capture == nullptr ? kNone : stream->capture->invalid ? kInvalidated : kActive;
  return kSuccess;
}

CUresult cuStreamEndCapture(Stream* handle, Graph** graph) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (graph == nullptr) return kInvalidValue;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return kIllegalState;
  if (capture->origin != stream) return kStreamCaptureUnmatched;
  if (capture->mode != kRelaxedMode && capture->begun != host().thread()) return kStreamCaptureWrongThread;
  const bool joined = is_joined(*capture->graph, stream->capture_tails);
  leave(*caller.driver, capture);
  std::unique_ptr<Graph> recorded = std::move(capture->graph);  // nothing joins a recording that has ended
  *graph = nullptr;
  if (capture->invalid) return kStreamCaptureInvalidated;
  if (!joined) return kStreamCaptureUnjoined;
  *graph = caller.driver->graphs.add(std::move(recorded));
  return kSuccess;
}

CUresult refuse_beside_recordings(const Caller& caller) {
  const int own_mode = caller.thread->capture_mode;
  if (caller.driver->recordings.empty() || own_mode == kRelaxedMode) return kSuccess;
  bool refused = false;
  std::erase_if(caller.driver->recordings, [&](const std::weak_ptr<Capture>& one) {
    const std::shared_ptr<Capture> capture = one.lock();
    if (capture == nullptr || capture->graph == nullptr) return true;  // it has ended
    const bool forbids = capture->begun == host().thread() ? capture->mode != kRelaxedMode
                                                           : capture->mode == kGlobalMode && own_mode == kGlobalMode;
    if (forbids) refused = capture->invalid = true;
    return false;
  });
  return refused ? kStreamCaptureUnsupported : kSuccess;
}

CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (mode == nullptr || *mode < 0 || *mode > kRelaxedMode) return kInvalidValue;
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
  if (edges != nullptr && nodes == nullptr) return kInvalidValue;
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

CUresult cuStreamGetCaptureInfo_v2(Stream* stream, int* status, unsigned long long* id, Graph** graph,
                                   const GraphNode*** nodes, std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, nullptr, count);
}
CUresult cuStreamGetCaptureInfo(Stream* stream, int* status, unsigned long long* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamUpdateCaptureDependencies_v2(Stream* handle, GraphNode** nodes, const CUgraphEdgeData* edges,
                                              std::size_t count, unsigned flags) {
  constexpr unsigned kAdd = 0, kSet = 1;
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (stream->capture == nullptr) return kIllegalState;
  if (stream->capture->invalid) return kStreamCaptureInvalidated;
  if ((flags != kAdd && flags != kSet) || (count > 0 && nodes == nullptr)) return kInvalidValue;
  if (const CUresult error = refuse_edge_data(edges, count)) return error;
  Graph& graph = *stream->capture->graph;
  std::vector<std::size_t> wanted = flags == kAdd ? stream->capture_tails : std::vector<std::size_t>();
  for (std::size_t index = 0; index < count; ++index) {
    const std::size_t place = index_of(graph, nodes[index]);
    if (place == graph.nodes.size()) return kInvalidValue;
    if (std::find(wanted.begin(), wanted.end(), place) == wanted.end()) wanted.push_back(place);
  }
  std::vector<std::size_t> left = std::exchange(stream->capture_tails, wanted);
  std::erase_if(left, [&](std::size_t one) { return std::find(wanted.begin(), wanted.end(), one) != wanted.end(); });
  excuse(graph, left);
  return kSuccess;
}
CUresult cuStreamUpdateCaptureDependencies(Stream* stream, GraphNode** nodes, std::size_t count, unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}

}  // namespace meshbed::sim::cuda
