#pragma once
// A listener's handle names the addresses that its process had when it was made, and a chain those that its first relay
// had when it was found. Where nothing is heard from there for a while, the process is asked which it has now, by
// broadcast over every cable, since that needs no address of it. Other processes of its node may use other NICs.

#include <cstdint>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::net {

class PeerDiscovery;

class Whereabouts {
 public:
  /// `address`: where `whom` is being dialled from now on.
  Whereabouts(const ProcessKey& whom, const IpAddress& address) : whom_(whom), address_(address) {}

  const IpAddress& address() const { return address_; }
  /// Asks, where it is time for that. Whether the process has answered that it has that address no more; `known`, its
  /// addresses, become what it has. NICs whose links are down are not in an answer, and keep theirs.
  bool has_left(PeerDiscovery& discovery, std::vector<PeerAddress>& known);

 private:
  /// After as long as a first SYN that was lost takes, then after twice as long.
  static constexpr std::int64_t kFirstDoubtMs = 1000, kLongestDoubtMs = 8000;

  ProcessKey whom_;
  IpAddress address_;
  std::int64_t pause_ms_ = kFirstDoubtMs;
  std::int64_t asked_ns_ = 0;  // 0: not yet
  Deadline next_question_ = Deadline::after_ms_or_never(kFirstDoubtMs);
};

}  // namespace meshbed::net
