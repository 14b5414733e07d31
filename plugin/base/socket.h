#pragma once
// Socket: one open socket with one owner. What is sent over it, and what its errors mean, is for its room to say:
// plugin/net/wire/socket.h, plugin/coll/store/socket.h.

#include "plugin/base/descriptor.h"

namespace meshbed {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}

  bool is_open() const { return descriptor_.is_open(); }
  int descriptor() const { return descriptor_.number(); }
  void close() { descriptor_.close(); }
  /// The caller owns it from now on.
  int release() { return descriptor_.release(); }

  /// Waits for `events` (poll(2)); false where the time was up first.
  bool wait_for(short events, int timeout_ms) const;
  /// How an attempt to connect has ended, as an errno; 0: well.
  int connect_error() const;

 private:
  Descriptor descriptor_;
};

}  // namespace meshbed
