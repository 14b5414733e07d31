#pragma once
// What everybody who accepts a connection does with the one that asks.

#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/link/connection.h"
#include "plugin/net/process/nic.h"
#include "plugin/net/wire/wire.h"

namespace meshbed::net {

class ProcessLinks;

/// Our end for a client that dialled our address `own` from `client` and says that it is `peer`: the NIC whose address
/// it dialled, for that TCP arrived there is the proof of the cable. An error is the reason to refuse it.
///
/// Who passes can be joined (QpLink::join) without a wait: its GID is the address that it came from (gid_may_answer),
/// that address is in the subnet of a cable of ours, and so it is on that cable that our kernel has just asked for its
/// Ethernet address, to answer its SYN; an address that nobody answers for gets no such answer, and no TCP connection.
/// Nobody can claim one that does not resolve, then; as long as he is joined now, and not when that entry is old. Who
/// comes over a router (routed_ways.h) has the router's Ethernet address, which the same SYN was answered to.
Result<LocalEnd> local_end_for(ProcessLinks& process, const IpAddress& own, const IpAddress& client,
                               const WireEnd& peer);

/// Those who come over a cable, as the addresses are now. Whose door it is looks at all who come there, so that a look
/// must not cost what current_nics() does; one that finds nobody may be due to addresses that have changed, though.
/// Not for several threads.
class Neighbours {
 public:
  explicit Neighbours(const ProcessLinks& process) : process_(process) {}
  bool include(const IpAddress& own, const IpAddress& client);

 private:
  /// Strangers make us look at the ports' addresses so often at most.
  static constexpr std::int64_t kLookPauseMs = 100;
  void look();

  const ProcessLinks& process_;
  std::vector<Nic> nics_;
  bool looked_ = false;
  std::uint32_t events_ = 0;  // Transport::port_events(), then
  Deadline next_look_;
};

}  // namespace meshbed::net
