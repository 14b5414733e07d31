#pragma once
// QP links that are of no use any more, and must not be destroyed at once: destroying a queue pair lasts as long as its
// last packets wait for a dead link (measured on soft-RoCE: 3 s), and whoever does it stands still meanwhile.

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/net/link/qp_link.h"
#include "plugin/net/process/clock.h"

namespace meshbed::net {

/// The process's. Any thread.
class RetiredLinks {
 public:
  /// Moves it to ERR, and destroys those that were added long ago.
  void add(std::unique_ptr<QpLink> qp_link) {
    qp_link->abort();
    sweep();
    const std::lock_guard lock(mutex_);
    qp_links_.push_back({.qp_link = std::move(qp_link), .until = Deadline::in_ms(kKeptMs)});
  }
  /// Destroys those that were added long ago.
  void sweep() {
    std::vector<Kept> over;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    while (!qp_links_.empty() && qp_links_.front().until.passed()) {
      over.push_back(std::move(qp_links_.front()));
      qp_links_.erase(qp_links_.begin());
    }
  }

 private:
  static constexpr std::int64_t kKeptMs = 10'000;
  struct Kept {
    std::unique_ptr<QpLink> qp_link;
    Deadline until;
  };

  std::mutex mutex_;            // guards legs_
  std::vector<Kept> qp_links_;  // in the order in which they were added
};

/// Destroys a QP link: one that was joined later, where its transport keeps such.
inline void put_away(std::unique_ptr<QpLink> qp_link) {
  if (qp_link == nullptr || qp_link->local().spent == nullptr || qp_link->joined_ns() == 0) return;
  RetiredLinks& spent = *qp_link->local().spent;
  spent.add(std::move(qp_link));
}

}  // namespace meshbed::net
