#pragma once
// Connect attempt: one end of one edge on its way to a connection; connection.h has the protocol. Service thread only.

#include <cstdint>
#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/coll/transport/connection.h"

namespace meshbed::coll {

class ConnectAttempt {
 public:
  ConnectAttempt(const ConnectContext& context, const Edge& edge, std::uint32_t number);
  ConnectAttempt(ConnectAttempt&& other) noexcept;
  ConnectAttempt& operator=(ConnectAttempt&&) = delete;
  /// Closes what was opened and not released.
  ~ConnectAttempt();

  const Edge& edge() const { return edge_; }
  bool done() const { return state_ == State::kDone; }
  /// The peer has published its outcome.
  bool heard_of_peer() const { return peer_ready_; }
  /// True while the plugin's connect or accept must be called again.
  bool polls_plugin() const { return state_ == State::kConnecting || state_ == State::kAccepting; }
  /// Checks everything that may have happened; returns true if something had.
  Result<bool> step();
  /// What is missing, as the middle of a sentence that ends in a duration.
  std::string waiting_for() const;
  /// Publishes a refusal, as the peer may wait for us.
  void abandon(const std::string& reason);
  /// The connection, once done; the caller owns it now.
  void* release();

 private:
  enum class State { kStart, kAwaitHandle, kConnecting, kAccepting, kAwaitPeer, kDone };

  Result<bool> start();
  Result<bool> await_handle();
  Result<bool> poll_plugin();
  Result<bool> await_peer();
  Result<void> look_at_peer();
  Result<void> publish(char kind, const std::string& text);
  std::string key(char kind) const;
  std::string name() const;
  Error refuse(const std::string& reason);
  Error plugin_refused(const char* call, int code);

  const ConnectContext& context_;
  Edge edge_;
  std::uint32_t number_;
  State state_ = State::kStart;
  void* listen_comm_ = nullptr;
  void* comm_ = nullptr;
  std::string handle_;  // as received; connect may keep state in it between calls
  std::uint32_t handle_request_ = 0, peer_request_ = 0;
  bool peer_ready_ = false;
  bool published_ = false;  // our outcome is known to the peer
  std::uint64_t warns_before_ = 0;
};

}  // namespace meshbed::coll
