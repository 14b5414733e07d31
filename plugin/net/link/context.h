#pragma once
// One user of the transport: a communicator (v11, v12) or the process (v8 to v10). It holds its traffic class, its
// profiler, and NCCL's hints on the traffic.

#include <cstdint>
#include <memory>
#include <mutex>

#include "plugin/net/link/event_log.h"
#include "plugin/net/process/object.h"
#include "plugin/net/process/state.h"
#include "plugin/net/process/traffic_hint.h"

namespace meshbed::net {

class Transport;

struct ContextSettings {
  std::uint64_t comm = 0;            // NCCL's number of the communicator; 0: the process
  int traffic_class = -1;            // -1: that of the configuration
  EventFunction profiler = nullptr;  // nullptr: no profiler
};

class Context : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kContext;
  /// Enrolls itself with the transport, which must outlive it.
  Context(Transport& transport, const ContextSettings& settings);
  ~Context();

  Transport& transport;
  const ContextSettings settings;

  /// NCCL's hint, which it gives before it connects and before it transfers. It is kept for the state, and may keep
  /// connections on their own cables (traffic_hint.h). Any thread.
  void note_hint(const CommunicatorState& hint) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t hints = hint_.hints + 1;
    hint_ = hint;
    hint_.hints = hints;
    hint_.comm = settings.comm;
    traffic_hint_->note(hint);
  }
  /// May outlive the context.
  std::shared_ptr<const TrafficHint> traffic_hint() const { return traffic_hint_; }
  CommunicatorState hint() {
    const std::lock_guard lock(mutex_);
    return hint_while_frozen();
  }
  CommunicatorState hint_while_frozen() const {
    CommunicatorState hint = hint_;
    hint.comm = settings.comm;
    return hint;
  }

 private:
  std::mutex mutex_;  // guards hint_
  CommunicatorState hint_;
  std::shared_ptr<TrafficHint> traffic_hint_ = std::make_shared<TrafficHint>();
};

}  // namespace meshbed::net
