#pragma once
// LongWait: a rank that waits for others for long reports to rank 0 for whom, and what it has called last, so that the
// others learn who is missing, and all of them where they can never meet. It also asks whether rank 0 is there at all:
// without its store no rank would learn anything, and a machine that lost its power ends no connection.

#include <cstdint>

#include "plugin/base/deadline.h"
#include "plugin/coll/store/store_client.h"

namespace meshbed::coll {

/// How much of a wait of `timeout_ms` (0: no limit) passes before it is a long one.
constexpr std::int64_t long_part_of(std::int64_t timeout_ms) {
  constexpr std::int64_t kUnlimitedMs = 15000;
  return timeout_ms > 0 ? timeout_ms / 2 : kUnlimitedMs;
}

class LongWait {
 public:
  /// `long_ms`: how long a wait is that is worth telling, and how long rank 0 may take to answer.
  LongWait(StoreClient& store, std::int64_t long_ms)
      : store_(store), long_ms_(long_ms), next_(Deadline::after_ms(long_ms)) {}
  ~LongWait() {
    if (told_) (void)store_.tell_waiting_no_longer();  // a store that is gone shows everywhere else
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  /// `peer`: which rank we wait for now, or for first; -1: not known. kTimeout: rank 0 does not answer.
  Result<void> look(int peer) {
    if (told_ ? peer != told_peer_ : next_.passed()) {
      told_ = true;
      told_peer_ = peer;
      if (auto told = store_.tell_waiting(peer); !told) return told;
    }
    if (!next_.passed()) return ok();
    next_ = Deadline::after_ms(long_ms_);
    return store_.ask_alive(long_ms_);
  }
  /// When to look again.
  const Deadline& next() const { return next_; }

 private:
  StoreClient& store_;
  std::int64_t long_ms_;
  Deadline next_;
  bool told_ = false;
  int told_peer_ = -1;
};

}  // namespace meshbed::coll
