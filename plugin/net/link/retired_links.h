#pragma once
// Legs that are of no use any more, and must not be destroyed at once: destroying a queue pair lasts as long as its
// last packets wait for a dead link (measured on soft-RoCE: 3 s), and whoever does it stands still meanwhile.

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/net/link/qp_link.h"
#include "plugin/net/process/clock.h"

namespace meshbed::net {

/// The process's. Any thread.
class SpentLegs {
 public:
  /// Moves it to ERR, and destroys those that were added long ago.
  void add(std::unique_ptr<Leg> leg) {
    leg->abort();
    sweep();
    const std::lock_guard lock(mutex_);
    legs_.push_back({.leg = std::move(leg), .until = Deadline::in_ms(kKeptMs)});
  }
  /// Destroys those that were added long ago.
  void sweep() {
    std::vector<Kept> over;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    while (!legs_.empty() && legs_.front().until.passed()) {
      over.push_back(std::move(legs_.front()));
      legs_.erase(legs_.begin());
    }
  }

 private:
  static constexpr std::int64_t kKeptMs = 10'000;
  struct Kept {
    std::unique_ptr<Leg> leg;
    Deadline until;
  };

  std::mutex mutex_;        // guards legs_
  std::vector<Kept> legs_;  // in the order in which they were added
};

/// Destroys a leg: one that was joined later, where its transport keeps such.
inline void put_away(std::unique_ptr<Leg> leg) {
  if (leg == nullptr || leg->local().spent == nullptr || leg->joined_ns() == 0) return;
  SpentLegs& spent = *leg->local().spent;
  spent.add(std::move(leg));
}

}  // namespace meshbed::net
