#include "plugin/net/link/event_log.h"

namespace meshbed::net {
namespace {

constexpr int kBegin = 0, kEnd = 1;

}  // namespace

void EventLog::begin(Request& request, void* parent, const MeshbedTransferEvent& data) {
  while (of_requests_.size() <= request.index) of_requests_.emplace_back();
  Events& events = of_requests_[request.index];
  if (!request.has_events) events.count = 0;
  request.has_events = true;
  Event& event = events.all[events.count++];
  event = {.handle = nullptr, .data = data};
  (void)function_(&event.handle, kBegin, parent, MESHBED_TRANSFER_EVENT_ID, &event.data);
}

void EventLog::end(Request& request, bool done) {
  request.has_events = false;
  Events& events = of_requests_[request.index];
  for (std::size_t at = 0; at < events.count; ++at) {
    Event& event = events.all[at];
    // Without a handle the profiler does not want the end.
    if (event.handle == nullptr) continue;
    event.data.failed = done ? 0 : 1;
    event.data.moved_bytes = done ? request.sizes[event.data.part] : 0;
    (void)function_(&event.handle, kEnd, nullptr, 0, nullptr);
  }
  events.count = 0;
}

}  // namespace meshbed::net
