#pragma once
// The profiler's events of one connection's requests: begun and ended through the callback that NCCL gave to init().
// Used in the connection's turn. Only connections with a profiler have one.

#include <cstdint>
#include <deque>
#include <vector>

#include "plugin/net/link/request.h"
#include "plugin/net/process/transfer_event.h"

namespace meshbed::net {

/// `type`: 0 begins an event below `parent` and may leave its handle in `*event`, 1 ends it. The result is ignored.
using EventFunction = int (*)(void** event, int type, void* parent, std::int64_t plugin_id, void* data);

class EventLog {
 public:
  explicit EventLog(EventFunction function) : function_(function) {}

  /// Begins one event of `request`, which holds it until end().
  void begin(Request& request, void* parent, const MeshbedTransferEvent& data);
  /// Ends all events of `request`; `done`: with its sizes.
  void end(Request& request, bool done);

 private:
  struct Event {
    void* handle = nullptr;
    MeshbedTransferEvent data{};
  };
  struct Events {
    std::array<Event, kMaxGroup> all;
    std::size_t count = 0;
  };

  EventFunction function_;
  std::deque<Events> of_requests_;  // by index; a record must not move while its event lasts
};

}  // namespace meshbed::net
