#pragma once
// One request over a cable to the service thread of a peer's process, which replies whether or not the peer's
// connections are polled (resume_server.h).

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

  /// `peer`: the other end of the cable as last known; `own`: our present address there. The reply to `question` is
  /// THERE or GONE with its cookie.
  ServiceCall(const IpAddress& own, const WireEnd& peer, const WireMessage& question);

  enum class Answer { kNotYet, kThere, kGone, kNone };
  /// One step. kNone: no reply will come.
  Answer advance();
  /// The reason after kGone and kNone, and while no reply has come.
  const std::string& why() const { return why_; }
  /// The connection's descriptor; if writes(), the next step waits for POLLOUT.
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

/// Our present address on the cable to `peer`: it may have changed since the QP link was connected.
IpPrefix own_address(const std::vector<InterfaceAddress>& interfaces, const LocalEnd& local, const IpAddress& peer);

}  // namespace meshbed::net
