#pragma once
// Cables that did not reply when a connection was made that should have been striped over them too. The first
// connection waits for such a cable and warns of it; for a minute the others do neither.

#include <algorithm>
#include <mutex>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/recover/failed_paths.h"

namespace meshbed::net {

/// One for the process. Any thread.
class SilentCables {
 public:
  /// Returns false if the cable is known already.
  bool add(const CableEnds& ends) {
    const std::lock_guard lock(mutex_);
    if (knows(ends)) return false;
    silent_.push_back({.ends = ends, .until = Deadline::after_ms_or_never(kMemoryMs)});
    return true;
  }
  bool contains(const CableEnds& ends) {
    const std::lock_guard lock(mutex_);
    return knows(ends);
  }
  /// The cable has replied.
  void remove(const CableEnds& ends) {
    const std::lock_guard lock(mutex_);
    std::erase_if(silent_, [&](const Silent& known) { return known.ends == ends; });
  }

 private:
  static constexpr std::int64_t kMemoryMs = 60'000;
  struct Silent {
    CableEnds ends;
    Deadline until;
  };

  bool knows(const CableEnds& ends) {
    std::erase_if(silent_, [](const Silent& known) { return known.until.passed(); });
    return std::any_of(silent_.begin(), silent_.end(), [&](const Silent& known) { return known.ends == ends; });
  }

  std::mutex mutex_;  // guards silent_
  std::vector<Silent> silent_;
};

}  // namespace meshbed::net
