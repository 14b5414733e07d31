#pragma once
// A listener's handle names the addresses that its node had when it was made. Where nothing is heard from there for a
// while, the node is asked which it has now: by broadcast over every cable, since that needs no address of it.

#include <cstdint>
#include <vector>

#include "plugin/net/clock.h"
#include "plugin/net/peer_address.h"

namespace meshbed::net {

class Scout;

class Whereabouts {
 public:
  /// `node`: the handle's.
  explicit Whereabouts(std::uint64_t node) : node_(node) {}

  /// Asks, where it is time for that. Whether the node has answered that nobody there has `address` any more; `known`
  /// becomes what it has. NICs whose links are down are not in an answer, and keep theirs.
  bool has_left(const IpAddress& address, Scout& scout, std::vector<PeerAddress>& known);

 private:
  /// After as long as a first SYN that was lost takes, then after twice as long.
  static constexpr std::int64_t kFirstDoubtMs = 1000, kLongestDoubtMs = 8000;

  std::uint64_t node_;
  std::int64_t pause_ms_ = kFirstDoubtMs;
  std::int64_t asked_ns_ = 0;  // 0: not yet
  Deadline next_question_ = Deadline::in_ms(kFirstDoubtMs);
};

}  // namespace meshbed::net
