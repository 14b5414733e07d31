#pragma once
// The connecting side of one handshake, as a state machine that is polled:
//   dial the address on the chosen subnet -> [ROUTE] -> REQUEST -> wait for REPLY -> queue pair to RTS
//   -> [proof] -> READY
// The control connection runs over the cable itself, from our address on it to the peer's: where TCP cannot go, RDMA
// could not either, and the error says so before any queue pair is lost in time-outs.

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

/// One cable of the way: from which NIC, to whom.
struct Destination {
  Route route;
  SocketAddress target;
  std::uint64_t cookie = 0;           // the listener's, or the circuit's or the session's number
  std::optional<WireRoute> onward{};  // to a relay: how it goes on
  bool resumes = false;               // RESUME instead of REQUEST
  std::optional<WireRail> rail{};     // RAIL instead of REQUEST
  bool keeps_ready = false;           // READY waits for go_ahead()
  std::int64_t dial_ms = 0;           // for all attempts; 0: as the configuration says
  std::int64_t patience_ms = 0;       // one attempt, and no longer than this; 0: as the configuration says
};

class Connecting {
 public:
  /// `QP link` is our end, ready to join(); it must outlive this.
  Connecting(ProcessLinks& process, Destination destination, QpLink& qp_link);

  /// True: connected, but for READY where that is kept. After an error the object is of no use.
  Result<bool> advance();
  /// Nothing has come from the peer yet.
  bool is_dialling() const { return state_ == State::kDial || state_ == State::kDialling; }
  /// Connected, and READY is kept.
  bool is_kept() const { return state_ == State::kKept; }
  /// Once connected: READY is sent, too, by the next calls of advance().
  void go_ahead();
  /// What poll(2) should look for before the next advance().
  pollfd watched() const;
  /// For a look from outside.
  std::string waits_for() const;
  Socket take_control() { return std::move(socket_); }
  /// RESUMED, GONE: what the receiver has served. RESUMED: where it is taken up again.
  std::uint64_t served() const { return served_; }
  std::uint64_t session() const { return session_; }
  std::uint16_t session_port() const { return session_port_; }
  /// After an error: it would be the same next time, for the peer's connection or process is gone.
  bool is_final() const { return final_; }
  /// After an error: the peer is there, and said no.
  bool was_refused() const { return refused_; }

 private:
  enum class State { kDial, kDialling, kRoute, kRequest, kReply, kProof, kKept, kReady, kDone };

  /// True: the state changed, look again; false: wait.
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
