#pragma once
// The connecting side of the handshake, as a state machine that connect() polls:
//   dial the peer's address on the chosen subnet -> REQUEST -> wait for REPLY -> queue pair to RTS -> READY
// The control connection runs over the cable itself, from our address on it to the peer's: where TCP cannot go, RDMA
// could not either, and the error says so before any queue pair is lost in time-outs.

#include <memory>

#include "plugin/base/result.h"
#include "plugin/net/clock.h"
#include "plugin/net/handle.h"
#include "plugin/net/routing.h"
#include "plugin/net/send.h"
#include "plugin/net/socket.h"

namespace meshbed::net {

class Transport;

class Connecting {
 public:
  /// Chooses the route and creates the queue pair. Errors (kUnreachable names both sides' subnets) are logged.
  static Result<std::unique_ptr<Connecting>> begin(Transport& transport, const Handle& peer, int dev,
                                                   int traffic_class);

  /// The connection, or nullptr: not yet. After an error the object is of no use. Errors are logged.
  Result<std::unique_ptr<SendConnection>> advance();

 private:
  enum class State { kDial, kDialling, kRequest, kReply, kReady, kDone };

  Connecting(Transport& transport, const Handle& peer, const Route& route);
  /// True: the state changed, look again; false: wait.
  Result<bool> step();
  Result<bool> dial();
  Result<bool> await_dialling();
  Result<bool> retry_or_fail(const Error& error);
  Result<bool> write(State next);
  Result<bool> read_reply();
  Result<void> check_reply(const WireMessage& reply) const;
  Error unreachable(const std::string& why) const;
  std::string ends_text() const;

  Transport& transport_;
  Handle peer_;
  Route route_;
  std::string nic_name_;
  State state_ = State::kDial;
  int attempts_ = 0;
  Deadline dial_deadline_;     // for all attempts
  Deadline attempt_deadline_;  // for this one
  Deadline next_attempt_;
  Deadline reply_deadline_;
  Socket socket_;
  MessageReader reader_;
  MessageWriter writer_;
  std::unique_ptr<SendConnection> connection_;
};

}  // namespace meshbed::net
