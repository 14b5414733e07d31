// When receives are announced. A clear-to-send that the sender does not wait for is a packet and an acknowledgement
// beside the data, an eighth of the time of messages of 64 KiB; one that the sender waits for adds its latency. So a
// receive is announced at once, unless the sender has enough announced receives, beside the message that may be on its
// way already, to last until another clear-to-send arrives. Receives that are held back are written together as soon as
// the sender has too few.
//
//   announced  told_entry_ - oldest_entry_: announced and not served
//   held back  next_entry_ - told_entry_
//
// Never more is held back than is announced: so the sender knows at least half of the posted receives, however long the
// owner does not call. The rule is applied when a receive is posted and when one has completed. If the owner does
// neither, the CTS timer of the service announces what was held back for long. Without a service, or if a relay must be
// woken for each receive, nothing is held back.
#include "plugin/net/connect/service.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {

/// The store comes before the notice, and the service's thread goes to sleep in the reverse order: so one of the two
/// sees what the other did.
void ReceiveConnection::hold_back() {
  if (held_.load(std::memory_order_relaxed) != Held::kNothing) return;
  held_.store(Held::kSomething);
  service_->note_held();
}

Held ReceiveConnection::look_at_held() {
  Held held = held_.load();
  if (held == Held::kSomething) {
    held_.compare_exchange_strong(held, Held::kSeen);
    return Held::kSomething;
  }
  if (held == Held::kNothing) return held;
  // If the owner has the turn, the next look announces it.
  if (const Turn turn(*this); turn && !impaired() && holds_back()) announce_staged();
  return held;
}

}  // namespace meshbed::net
