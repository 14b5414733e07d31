#pragma once
// Announces receives that their connections hold back (receive.h) and whose owners do not call again: an owner may wait
// for something else that depends on these receives. Belongs to the service's thread, which looks every 5 ms while any
// connection holds something back. So nothing is held for longer than two looks, unless the thread's other work takes
// longer; a stream costs one look at a time instead of one wake per message. After owners have called again twenty
// times, it looks every 20 ms until one has not called in that time: on an emulated processor, where every wake counts,
// this makes streams of 64 and 128 KiB a tenth faster (`meshbed bench perftest`: 0.87 of perftest's bandwidth before,
// 0.99 with it). After 100 ms without anything held back it sleeps until watch().

#include <atomic>
#include <cstdint>

#include "plugin/base/deadline.h"

namespace meshbed::net {

class Sessions;

enum class Held : std::uint8_t;

class CtsTimer {
 public:
  explicit CtsTimer(Sessions& sessions) : sessions_(sessions) {}

  /// A connection has begun to hold something back (ReceiveConnection::look_at_held()). Any thread. Returns true if the
  /// service's thread must be woken.
  bool watch() { return !busy_.load() && !busy_.exchange(true); }

  // --- the service's thread ---
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  /// How long until the next look.
  int pause_ms() const;
  /// Call it while busy(), at least every pause_ms().
  void advance();

 private:
  /// The highest state of all connections.
  Held look_round();

  Sessions& sessions_;
  std::atomic<bool> busy_{false};
  int attended_looks_ = 0;  // looks in a row at which owners had called since the previous one
  Deadline next_look_;
  int quiet_looks_ = 0;
};

}  // namespace meshbed::net
