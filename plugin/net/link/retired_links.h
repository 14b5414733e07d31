#pragma once
// QP links that are no longer used and must not be destroyed at once: destroying a queue pair blocks for as long as its
// last packets wait for a dead link (measured on soft-RoCE: 3 s).

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/link/qp_link.h"

namespace meshbed::net {

/// The process's. Any thread.
class RetiredLinks {
 public:
  /// Moves it to ERR, and destroys those that were added long ago. `owner`: its connection. Only the last few links of
  /// an owner are kept: a later link was made and lost since, by retries as long as those of the older one's packets.
  /// Otherwise short retries would pile up a thousand objects in two seconds
  /// (tests/schedules/links-lost-again-and-again.toml).
  void add(std::unique_ptr<QpLink> qp_link, const void* owner) {
    qp_link->abort();
    sweep();
    std::unique_ptr<QpLink> oldest;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    const auto is_of_owner = [owner](const Kept& kept) { return kept.owner == owner; };
    if (std::count_if(qp_links_.begin(), qp_links_.end(), is_of_owner) >= kKeptOfOwner) {
      const auto found = std::find_if(qp_links_.begin(), qp_links_.end(), is_of_owner);
      oldest = std::move(found->qp_link);
      qp_links_.erase(found);
    }
    qp_links_.push_back({.qp_link = std::move(qp_link), .owner = owner, .until = Deadline::after_ms_or_never(kKeptMs)});
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
  static constexpr std::ptrdiff_t kKeptOfOwner = 4;
  struct Kept {
    std::unique_ptr<QpLink> qp_link;
    const void* owner = nullptr;
    Deadline until;
  };

  std::mutex mutex_;            // guards what follows
  std::vector<Kept> qp_links_;  // in the order in which they were added
};

/// Destroys a QP link, or retires it if it was joined and its transport keeps retired ones. `owner`: its connection.
inline void put_away(std::unique_ptr<QpLink> qp_link, const void* owner) {
  if (qp_link == nullptr || qp_link->local().spent == nullptr || qp_link->joined_ns() == 0) return;
  RetiredLinks& spent = *qp_link->local().spent;
  spent.add(std::move(qp_link), owner);
}

}  // namespace meshbed::net
