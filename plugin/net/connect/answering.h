#pragma once
// The checks that every accepting side makes of a connecting peer.

#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/link/connection.h"
#include "plugin/net/process/nic.h"
#include "plugin/net/wire/wire.h"

namespace meshbed::net {

class ProcessLinks;

/// Our end for a client that dialled our address `own` from `client` and describes itself as `peer`: the NIC whose
/// address it dialled, because the TCP connection that arrived there proves the cable. An error is the reason to refuse
/// the client.
///
/// A client that passes can be joined (QpLink::join) without a wait. Its GID is the address that it came from
/// (gid_may_answer), and that address is in the subnet of one of our cables. So the kernel has just resolved its
/// Ethernet address on that cable, to answer the SYN; an address that does not resolve gets no SYN-ACK and no TCP
/// connection. This holds only while that neighbour entry is fresh: join the client now. A client behind a router
/// (routed_ways.h) has the router's Ethernet address, which the kernel resolved for the same SYN.
Result<LocalEnd> local_end_for(ProcessLinks& process, const IpAddress& own, const IpAddress& client,
                               const WireEnd& peer);

/// Whether a client came over a cable, by the present addresses. Every arriving client is checked, so the check must
/// cost less than current_nics(): addresses are read again only after a port event, or after a client that matched none
/// of them. Not for several threads.
class Neighbours {
 public:
  explicit Neighbours(const ProcessLinks& process) : process_(process) {}
  bool include(const IpAddress& own, const IpAddress& client);

 private:
  /// Least time between two readings of the addresses that unknown clients cause.
  static constexpr std::int64_t kLookPauseMs = 100;
  void look();

  const ProcessLinks& process_;
  std::vector<Nic> nics_;
  bool looked_ = false;
  std::uint32_t events_ = 0;  // ProcessLinks::port_events() at the last look()
  Deadline next_look_;
};

}  // namespace meshbed::net
