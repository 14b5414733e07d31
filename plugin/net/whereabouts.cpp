#include "plugin/net/whereabouts.h"

#include <algorithm>

#include "plugin/net/scout.h"

namespace meshbed::net {

bool Whereabouts::has_left(Scout& scout, std::vector<PeerAddress>& known) {
  if (next_question_.passed()) {
    asked_ns_ = now_ns();
    scout.ask(1);
    pause_ms_ = std::min(2 * pause_ms_, kLongestDoubtMs);
    next_question_ = Deadline::in_ms(pause_ms_);
  }
  if (asked_ns_ == 0) return false;
  const auto found = scout.find(node_);
  // What it answered before we asked may be older than the handle.
  const auto is_new = [this](const RelayDoor& door) { return door.heard_ns >= asked_ns_; };
  if (!found || std::none_of(found->doors.begin(), found->doors.end(), is_new)) return false;
  known = updated(known, found->addresses);
  return std::none_of(known.begin(), known.end(),
                      [this](const PeerAddress& one) { return one.prefix.address == address_; });
}

}  // namespace meshbed::net
