#pragma once
// Where receives are announced that their connections held back (receive.h) and their owners do not come back to: they
// may wait for something else entirely, which may wait for these. Belongs to the service's thread, which looks every 5
// ms while anybody holds something back, so that nothing is held for longer than two looks, unless what else that
// thread does takes longer: a stream costs a look, not a wake a message. Where owners have come back twenty times it
// looks every 20 ms, until one has not come back in that time: on an emulated processor, where every wake counts,
// streams of 64 and 128 KiB are a tenth faster by that (`meshbed bench perftest`: 0.87 of perftest's bandwidth before,
// 0.99 with it). After 100 ms without anything held it is asleep until watch().

#include <atomic>
#include <cstdint>

#include "plugin/base/deadline.h"

namespace meshbed::net {

class Sessions;

enum class Held : std::uint8_t;

class CtsTimer {
 public:
  explicit CtsTimer(Sessions& sessions) : sessions_(sessions) {}

  /// A connection has begun to hold something back, and says so (ReceiveConnection::look_at_held()). Any thread. True:
  /// the service's thread must be woken.
  bool watch() { return !busy_.load() && !busy_.exchange(true); }

  // --- the service's thread ---
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  /// How long until the next look.
  int pause_ms() const;
  /// To be called while busy(), every pause_ms() or oftener.
  void advance();

 private:
  /// The most that anybody holds.
  Held look_round();

  Sessions& sessions_;
  std::atomic<bool> busy_{false};
  int attended_looks_ = 0;  // owners had come back since the one before
  Deadline next_look_;
  int quiet_looks_ = 0;
};

}  // namespace meshbed::net
