#pragma once
// StopEvent: a request to end, by a signal handler or another thread, for the thread that runs the cluster.

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "plugin/base/descriptor.h"

namespace meshbed::emu {

class StopEvent {
 public:
  StopEvent() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  /// Async-signal-safe.
  void request() const noexcept {
    const std::uint64_t one = 1;
    // A full counter is readable too: nothing is lost where this fails.
    if (write(event_.number(), &one, sizeof one) < 0) return;
  }
  bool is_requested() const {
    pollfd event{.fd = event_.number(), .events = POLLIN, .revents = 0};
    return poll(&event, 1, 0) == 1;
  }
  /// Readable from the request on.
  int descriptor() const { return event_.number(); }

 private:
  Descriptor event_;
};

/// What runs until it is asked to stop.
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  /// For signal handlers and other threads: what runs ends soon.
  virtual void request_stop() noexcept = 0;
};

}  // namespace meshbed::emu
