#pragma once
// LongWait: a rank that waits for others for long tells rank 0 so, for those who wonder who is missing: they wait for
// him, but it is not he.

#include <cstdint>

#include "plugin/coll/deadline.h"
#include "plugin/coll/store_client.h"

namespace meshbed::coll {

/// Tells rank 0 of a long wait, and of its end.
class LongWait {
 public:
  /// `long_ms`: how long a wait is that is worth telling.
  LongWait(StoreClient& store, std::int64_t long_ms) : store_(store), begins_(Deadline::after_ms(long_ms)) {}
  ~LongWait() {
    if (told()) (void)store_.tell_waiting(-1);  // a store that is gone shows everywhere else
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  /// `peer`: whom we wait for now, or for first.
  Result<void> look(int peer) {
    if (peer == told_peer_ || !begins_.passed()) return ok();
    told_peer_ = peer;
    return store_.tell_waiting(peer);
  }
  bool told() const { return told_peer_ >= 0; }
  const Deadline& begins() const { return begins_; }

 private:
  StoreClient& store_;
  Deadline begins_;
  int told_peer_ = -1;
};

}  // namespace meshbed::coll
