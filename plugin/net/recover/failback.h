#pragma once
// Failback: a sending connection that went on over another cable checks from time to time, without a limit, whether the
// first one is back. It returns only after a TCP connection over that cable has succeeded, so that the checks disturb
// nothing.

#include <cstdint>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/recover/failed_paths.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class ProcessLinks;

/// What a sender keeps from its connection's handshake, to find the receiver again.
struct Origin {
  ProcessLinks* process = nullptr;
  Handle peer;
  int dev = 0;                     // requested by the caller
  std::uint64_t session = 0;       // session_number()
  std::uint16_t service_port = 0;  // of the peer's process
};

/// The routes to the last known addresses of a sender's peer, by the present links and addresses.
Result<std::vector<Route>> ways_to(const Origin& origin, const std::vector<Nic>& nics);

class Failback {
 public:
  /// Made before the first QP link is lost: `home` is its end here, `peer` its end there. `origin` and `lost` must
  /// outlive this.
  Failback(const Origin& origin, const LocalEnd& home, const WireEnd& peer, const FailedPaths& lost)
      : origin_(origin), lost_(lost), device_(home.nic.device), port_(home.nic.port), peer_(peer.address.address) {
    next_look_ = Deadline::after_ms_or_never(kFirstPauseMs);
  }

  /// Whether a QP link is on the first one's cable.
  bool is_home(const LocalEnd& local, const WireEnd& peer) const {
    return is_from_home(local) && peer.address.address == peer_;
  }
  /// Whether it begins at the first one's NIC.
  bool is_from_home(const LocalEnd& local) const { return local.nic.device == device_ && local.nic.port == port_; }
  /// One step; call it repeatedly while away. Returns true if the first cable works: the peer's service has replied
  /// over it.
  bool advance();
  /// A port changed: the next check is due now.
  void hurry() {
    looks_later_ = false;
    pause_ms_ = kFirstPauseMs;
  }

 private:
  static constexpr std::int64_t kFirstPauseMs = 125;  // doubles with every check

  void put_off();

  const Origin& origin_;
  const FailedPaths& lost_;
  int device_;
  std::uint8_t port_;
  IpAddress peer_;
  Socket trial_;
  Deadline trial_ends_;
  Deadline next_look_;
  bool looks_later_ = true;
  std::int64_t pause_ms_ = kFirstPauseMs;
  std::uint32_t calls_ = 0;
};

}  // namespace meshbed::net
