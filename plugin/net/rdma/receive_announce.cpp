// When receives are announced. A clear-to-send that nobody waits for is a packet and an acknowledgement beside the
// data, an eighth of the time of messages of 64 KiB; and one that a sender waits for is its latency. So a receive is
// announced at once unless the sender has, beside the message that may be on its way already, enough announced ones to
// last until another clear-to-send is there; what is held back is written together when it has not any more.
//
//   announced  told_entry_ - oldest_entry_: announced and not served
//   held back  next_entry_ - told_entry_
//
// Never more is held back than is announced: the sender keeps half of what is posted ahead, however long we do not
// look. The rule is asked where a receive is posted and where some have come. An owner who does neither may have more
// to wait for than these: the CTS timer of the service looks after what is held for long. Without a service, or
// where a relay must be woken for each, nothing is held back.
#include "plugin/net/connect/service.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {

/// In this order, as the desk falls asleep in the other: one of the two sees what the other did.
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
  // Where its owner is at work on it: at the next look.
  if (const Turn turn(*this); turn && !impaired() && holds_back()) announce_staged();
  return held;
}

}  // namespace meshbed::net
