#pragma once
// Cables that a connection lost although their ports were up: TCP may get through on them while RDMA does not, or not
// enough. To return to one may cost all retries of the adapter, seconds in which nothing completes; so it is tried
// last, for a minute, and for twice as long each time.

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
  /// Adds a QP link or a rail that was lost, unless its own port is down: then the path is not at fault.
  void add(const QpLink& lost);
  /// How often in a row it was lost recently; 0: it is as good as any.
  unsigned times(const CableEnds& ends) const;
  bool may_try(const CableEnds& ends) const { return times(ends) == 0; }
  /// After an event of our ports: removes the cables of ports that are down, because the cable was pulled.
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
