#include "plugin/net/service/cts_timer.h"

#include <algorithm>

#include "plugin/net/link/sessions.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {
namespace {

constexpr int kQuietLooks = 20, kAttendedLooks = 20;
constexpr int kAnnouncePauseMs = 5, kAttendedPauseMs = 20;

}  // namespace

Held CtsTimer::look_round() {
  Held most = Held::kNothing;
  sessions_.for_each([&](ReceiveConnection& connection) { most = std::max(most, connection.look_at_held()); });
  return most;
}

int CtsTimer::pause_ms() const { return attended_looks_ < kAttendedLooks ? kAnnouncePauseMs : kAttendedPauseMs; }

void CtsTimer::advance() {
  if (next_look_.is_set() && !next_look_.passed()) return;
  const Held most = look_round();
  if (most == Held::kSomething) ++attended_looks_;
  if (most == Held::kSeen && pause_ms() > kAnnouncePauseMs) attended_looks_ = 0;
  next_look_ = Deadline::after_ms_or_never(pause_ms());
  quiet_looks_ = most == Held::kNothing ? quiet_looks_ + 1 : 0;
  if (quiet_looks_ < kQuietLooks) return;
  quiet_looks_ = 0;
  next_look_ = {};
  // A connection that began to hold before this is found by one more look; one that begins later wakes us.
  busy_.store(false);
  if (look_round() != Held::kNothing) busy_.store(true);
}

}  // namespace meshbed::net
