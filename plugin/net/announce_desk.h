#pragma once
// Where receives are announced that their connections held back (receive.h) and their owners do not come back to: they
// may wait for something else entirely, which may wait for these. Belongs to the service's thread, which looks every
// 5 ms while anybody holds something back: so nothing is held for longer than two looks, unless what else that thread
// does takes longer, and a stream costs a look, not a wake a message. After 100 ms without any it is asleep until
// watch().

#include <atomic>

#include "plugin/net/clock.h"

namespace meshbed::net {

class Sessions;

class AnnounceDesk {
 public:
  static constexpr int kPauseMs = 5;

  explicit AnnounceDesk(Sessions& sessions) : sessions_(sessions) {}

  /// A connection has begun to hold something back, and says so (ReceiveConnection::look_at_held()). Any thread. True:
  /// the service's thread must be woken.
  bool watch() { return !busy_.load() && !busy_.exchange(true); }

  // --- the service's thread ---
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  /// To be called while busy(), every kPauseMs or oftener.
  void advance();

 private:
  bool anybody_holds();

  Sessions& sessions_;
  std::atomic<bool> busy_{false};
  Deadline next_look_;
  int quiet_looks_ = 0;
};

}  // namespace meshbed::net
