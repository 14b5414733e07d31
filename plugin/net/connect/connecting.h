#pragma once
// The connecting side of one handshake, as a state machine that is polled:
//   dial the address on the chosen subnet -> [ROUTE] -> REQUEST -> wait for REPLY -> queue pair to RTS
//   -> [proof] -> READY
// The control connection runs over the cable itself, from our address on it to the peer's. Where TCP does not get
// through, RDMA would not either, and the error is reported before any queue pair runs into time-outs.

#include <poll.h>

#include <optional>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class ProcessLinks;

/// One cable of the path: from which NIC, to which address.
struct Destination {
  Route route;
  SocketAddress target;
  std::uint64_t cookie = 0;           // the listener's, or the circuit's or the session's number
  std::optional<WireRoute> onward{};  // to a relay: the rest of the path
  bool resumes = false;               // RESUME instead of REQUEST
  std::optional<WireRail> rail{};     // RAIL instead of REQUEST
  bool keeps_ready = false;           // READY waits for go_ahead()
  std::int64_t dial_ms = 0;           // for all attempts; 0: the configured time
  std::int64_t patience_ms = 0;       // not 0: a single attempt of at most this time
};

class Connecting {
 public:
  /// `qp_link` is our end, ready to join(); it must outlive this.
  Connecting(ProcessLinks& process, Destination destination, QpLink& qp_link);

  /// Returns true when connected, except for READY where that is held back. After an error the object is unusable.
  Result<bool> advance();
  /// Nothing has come from the peer yet.
  bool is_dialling() const { return state_ == State::kDial || state_ == State::kDialling; }
  /// Connected, and READY is held back.
  bool is_kept() const { return state_ == State::kKept; }
  /// Once connected: lets the next calls of advance() send READY.
  void go_ahead();
  /// What poll(2) should wait for before the next advance().
  pollfd watched() const;
  /// What it waits for, as text for the state dump.
  std::string waits_for() const;
  Socket take_control() { return std::move(socket_); }
  /// After RESUMED or GONE: the entries that the receiver has served.
  std::uint64_t served() const { return served_; }
  /// The session's number and service port, by which the connection can be resumed.
  std::uint64_t session() const { return session_; }
  std::uint16_t session_port() const { return session_port_; }
  /// After an error: a retry would fail too, because the peer's connection or process is gone.
  bool is_final() const { return final_; }
  /// After an error: the peer is present and refused.
  bool was_refused() const { return refused_; }

 private:
  enum class State { kDial, kDialling, kRoute, kRequest, kReply, kProof, kKept, kReady, kDone };

  /// Returns true if the state changed and another step may follow; false: wait.
  Result<bool> step();
  Result<bool> dial();
  Result<bool> await_dialling();
  Result<bool> retry_or_fail(const Error& error);
  Result<bool> write_route();
  Result<bool> write(State next);
  Result<bool> read_reply();
  Result<bool> begin_proof();
  Result<bool> await_proof();
  Result<void> check_reply(const WireMessage& reply);
  bool has_no_more_attempts() const;
  WireMessage request() const;
  Error unreachable(const std::string& why) const;
  std::string ends_text() const;

  ProcessLinks& process_;
  Destination destination_;
  QpLink& qp_link_;
  std::uint64_t served_ = 0, session_ = 0;
  std::uint16_t session_port_ = 0;
  bool final_ = false, refused_ = false;
  State state_ = State::kDial;
  int attempts_ = 0;
  Deadline dial_deadline_;     // for all attempts
  Deadline attempt_deadline_;  // for this one
  Deadline next_attempt_;
  Deadline reply_deadline_;
  Socket socket_;
  MessageReader reader_;
  MessageWriter writer_;
};

}  // namespace meshbed::net
