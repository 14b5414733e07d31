#pragma once
// LongWait: a rank that waits for others for long reports to rank 0 which rank it waits for and its last calls, so that
// the others learn which rank is missing, and all learn of calls that can never match. It also checks that rank 0
// exists: without its store no rank would learn anything, and a machine that lost its power ends no connection.

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
  /// `long_ms`: the length of a wait that is reported, and the time for rank 0 to reply.
  LongWait(StoreClient& store, std::int64_t long_ms)
      : store_(store), long_ms_(long_ms), next_(Deadline::after_ms(long_ms)) {}
  ~LongWait() {
    if (told_) (void)store_.tell_waiting_no_longer();  // a store that is gone shows everywhere else
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  /// `peer`: the rank that we wait for, or the first of them; -1: not known. kTimeout: rank 0 does not reply.
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
