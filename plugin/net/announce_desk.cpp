#include "plugin/net/announce_desk.h"

#include "plugin/net/receive.h"
#include "plugin/net/sessions.h"

namespace meshbed::net {
namespace {

constexpr int kQuietLooks = 20;

}  // namespace

bool AnnounceDesk::anybody_holds() {
  bool anybody = false;
  sessions_.for_each([&](ReceiveConnection& connection) { anybody = connection.look_at_held() || anybody; });
  return anybody;
}

void AnnounceDesk::advance() {
  if (next_look_.is_set() && !next_look_.passed()) return;
  next_look_ = Deadline::in_ms(kPauseMs);
  quiet_looks_ = anybody_holds() ? 0 : quiet_looks_ + 1;
  if (quiet_looks_ < kQuietLooks) return;
  quiet_looks_ = 0;
  next_look_ = {};
  // Whoever began to hold before this is seen by one more look, and whoever begins after it wakes us.
  busy_.store(false);
  if (anybody_holds()) busy_.store(true);
}

}  // namespace meshbed::net
