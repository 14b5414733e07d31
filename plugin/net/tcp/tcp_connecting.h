#pragma once
// The connecting side of a connection over TCP, as a state machine that is polled:
//   dial the peer's addresses, one after the other -> TCP_REQUEST -> wait for TCP_REPLY -> READY
// The control connection then carries the data.

#include <memory>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/tcp/tcp_interfaces.h"
#include "plugin/net/tcp/tcp_network.h"
#include "plugin/net/tcp/tcp_send.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class Process;

class TcpConnecting {
 public:
  /// `why`: the reason against RDMA, for the one warning about the peer. The caller logs errors.
  static Result<std::unique_ptr<TcpConnecting>> begin(const Process& process, TcpNetwork& network, const Handle& peer,
                                                      int dev, std::string why);
  /// The connection, or nullptr: not yet. After an error the object is unusable.
  Result<std::unique_ptr<TcpSendConnection>> advance();

 private:
  enum class State { kDial, kDialling, kRequest, kReply, kReady };

  TcpConnecting(const Process& process, TcpNetwork& network, const Handle& peer, std::vector<TcpRoute> routes,
                std::string why);
  /// Returns true if the state changed and another step may follow; false: wait.
  Result<bool> step();
  Result<bool> dial();
  Result<bool> await_dialling();
  Result<bool> next_or_fail(const std::string& problem);
  Result<bool> read_reply();
  std::unique_ptr<TcpSendConnection> finished();
  Error error(ErrorCode code, const std::string& what) const;
  const TcpRoute& route() const { return routes_[attempts_ % routes_.size()]; }

  const Process& process_;
  TcpNetwork& network_;
  Handle peer_;
  std::vector<TcpRoute> routes_;
  std::string why_;
  std::string peer_netdev_;
  State state_ = State::kDial;
  std::size_t attempts_ = 0;  // failed ones
  Deadline give_up_, attempt_deadline_, next_attempt_, reply_deadline_;
  Socket socket_;
  MessageReader reader_;
  MessageWriter writer_;
};

}  // namespace meshbed::net
