#pragma once
// Cables that a connection lost though their ports were up: over them TCP may get through, and RDMA does not, or too
// little of it. To come back to one costs all retries of the adapter, seconds in which nothing completes; so it is the
// last that is tried, for a minute, and for twice as long each time.

#include <cstdint>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/link/qp_link.h"

namespace meshbed::net {

/// The port at each end of a cable.
struct CableEnds {
  int device = 0;
  std::uint8_t port = 0;
  IpAddress peer;
  bool operator==(const CableEnds&) const = default;

  static CableEnds of(const LocalEnd& local, const WireEnd& peer) {
    return {.device = local.nic.device, .port = local.nic.port, .peer = peer.address.address};
  }
  static CableEnds of(const QpLink& qp_link) { return of(qp_link.local(), qp_link.peer()); }
  /// `nic` is the route's.
  static CableEnds of(const Nic& nic, const Route& route) {
    return {.device = nic.device, .port = nic.port, .peer = route.remote.prefix.address};
  }
};

class FailedPaths {
 public:
  /// A QP link or a rail that was lost; not where its own port is down, which is no fault of the way.
  void add(const QpLink& lost);
  /// How often in a row, of late; 0: it is as good as any.
  unsigned times(const CableEnds& ends) const;
  bool may_try(const CableEnds& ends) const { return times(ends) == 0; }
  /// A port of ours told of something: where it is down the cable was out, and will be another one when it is back.
  void forgive(const std::vector<Nic>& nics);

 private:
  struct Entry {
    CableEnds ends;
    std::int64_t pause_ms = 0;
    unsigned times = 0;
    Deadline not_before;
  };
  std::vector<Entry> entries_;
};

}  // namespace meshbed::net
