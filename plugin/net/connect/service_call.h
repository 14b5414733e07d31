#pragma once
// One question over a cable to the service of a peer's process, which answers for it whether its owners look or not
// (resume_server.h).

#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/process/discovery.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class ServiceCall {
 public:
  static constexpr std::int64_t kPatienceMs = 2500;

  /// `peer`: the other end of the cable as it was last known; `own`: our address there as it is now. `question` is
  /// answered by THERE or GONE with its cookie.
  ServiceCall(const IpAddress& own, const WireEnd& peer, const WireMessage& question);

  enum class Answer { kNotYet, kThere, kGone, kNone };
  /// One step. kNone: there will be none.
  Answer advance();
  /// After kGone, kNone, and where nobody has answered so far.
  const std::string& why() const { return why_; }
  /// Of the connection; writes: its next step waits for room.
  int descriptor() const { return socket_.descriptor(); }
  bool writes() const { return !asked_; }

 private:
  Answer hang_up(const std::string& why);

  std::uint64_t cookie_;
  Deadline ends_;
  Socket socket_;
  std::string why_;
  bool connected_ = false, asked_ = false;
  MessageReader reader_;
  MessageWriter writer_;
};

/// Our address on the cable to `peer`, as it is now: it may be another one than when the QP link came to stand.
IpPrefix own_address(const std::vector<InterfaceAddress>& interfaces, const LocalEnd& local, const IpAddress& peer);

}  // namespace meshbed::net
