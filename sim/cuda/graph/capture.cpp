// Recording a stream: what it is given becomes nodes of a graph (cuStreamBeginCapture and its like).

#include <algorithm>

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
