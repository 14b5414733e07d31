#include "plugin/net/connect/whereabouts.h"

#include <algorithm>

#include "plugin/net/connect/peer_discovery.h"

namespace meshbed::net {

bool Whereabouts::has_left(PeerDiscovery& discovery, std::vector<PeerAddress>& known) {
  if (next_question_.passed()) {
    asked_ns_ = now_ns();
    discovery.ask(1);
    pause_ms_ = std::min(2 * pause_ms_, kLongestDoubtMs);
    next_question_ = Deadline::after_ms_or_never(pause_ms_);
  }
  if (asked_ns_ == 0) return false;
  const auto found = discovery.find(whom_);
  // A reply from before our query may be older than the handle.
  if (!found || found->heard_ns < asked_ns_) return false;
  known = updated(known, found->addresses);
  return std::none_of(known.begin(), known.end(),
                      [this](const PeerAddress& one) { return one.prefix.address == address_; });
}

}  // namespace meshbed::net
