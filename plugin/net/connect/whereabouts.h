#pragma once
// A listener's handle holds the addresses that its process had when the handle was made, and a chain those that its
// first relay had when it was found. If an address does not reply for a while, a query is broadcast over every cable,
// which needs no address, and the process replies with its present ones. Other processes of its node may use other
// NICs.

#include <cstdint>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::net {

class PeerDiscovery;

class Whereabouts {
 public:
  /// `address`: the address of `whom` that is being dialled.
  Whereabouts(const ProcessKey& whom, const IpAddress& address) : whom_(whom), address_(address) {}

  const IpAddress& address() const { return address_; }
  /// Sends the query when it is due. Returns true if the process has replied that it no longer has that address;
  /// `known` is updated to its present addresses. NICs whose links are down are not in a reply, and keep theirs.
  bool has_left(PeerDiscovery& discovery, std::vector<PeerAddress>& known);

 private:
  /// The first query follows after the time in which a lost SYN is repeated; the pause doubles each time.
  static constexpr std::int64_t kFirstDoubtMs = 1000, kLongestDoubtMs = 8000;

  ProcessKey whom_;
  IpAddress address_;
  std::int64_t pause_ms_ = kFirstDoubtMs;
  std::int64_t asked_ns_ = 0;  // 0: not yet
  Deadline next_question_ = Deadline::after_ms_or_never(kFirstDoubtMs);
};

}  // namespace meshbed::net
