#pragma once
// The accepting side of the handshake: one TCP socket on an ephemeral port of every address (first_messages.h), any
// number of clients, each with its own state and deadline. A slow, silent or confused client does not delay the others.
//
// A client is served by the NIC whose address it dialled: the TCP connection that arrived there proves the cable. A
// client that asks for data over TCP is served if that is enabled (tcp_network.h).

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/rare_warnings.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/answering.h"
#include "plugin/net/connect/first_messages.h"
#include "plugin/net/link/connection.h"
#include "plugin/net/link/context.h"
#include "plugin/net/process/object.h"
#include "plugin/net/process/state.h"
#include "plugin/net/rdma/receive.h"
#include "plugin/net/recover/liveness_check.h"
#include "plugin/net/tcp/tcp_connection.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class Transport;

class Listener : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kListener;
  static Result<std::unique_ptr<Listener>> create(Transport& transport, int dev, const ContextSettings& owner);

  Handle handle() const;
  /// Advances all clients; hands out one finished connection, or nullptr.
  Result<std::unique_ptr<Endpoint>> take();
  /// Advances all clients, unless another thread is doing so. A failure is reported by take().
  void advance_if_idle();

  /// nullopt: another thread is working on it.
  std::optional<HandshakeState> state(std::int64_t now_ns);
  /// While no other thread of this process runs.
  HandshakeState state_while_frozen(std::int64_t now_ns) const;

  Transport& transport() const { return transport_; }
  /// The settings of the context that listens.
  const ContextSettings& owner() const { return owner_; }

 private:
  enum class State { kHeld, kReply, kReady, kRefusing };
  enum class Progress { kWaits, kFinished, kGone };
  struct Client {
    Socket socket;
    SocketAddress local, remote;
    Deadline deadline;
    State state = State::kReply;
    MessageReader reader;
    MessageWriter writer;
    WireMessage request;
    std::uint32_t events = 0;  // port_events() at the last attempt to accept it
    Deadline held_until;
    std::unique_ptr<ReceiveConnection> connection;
    // For the wait for READY after our REPLY: the sender to query, if it can be queried. The service's thread may
    // resume the client's connection meanwhile, so the connection itself is not inspected.
    std::optional<LivenessCheck::Lost> sender;
    Deadline next_question;
    std::int64_t question_pause_ms = kFirstQuestionMs;
    std::unique_ptr<LivenessCheck> liveness_check;
    std::optional<TcpEnds> tcp;  // instead of `connection`; its socket is still this one's
  };

  static constexpr std::int64_t kFirstQuestionMs = 1000;  // doubles each time

  Listener(Transport& transport, int dev, const ContextSettings& owner);
  Result<void> advance();
  void greet(Arrival arrival);
  Progress advance(Client& client);
  Progress read_request(Client& client);
  /// While its port is down.
  Progress hold(Client& client);
  bool is_away(const IpAddress& address) const;
  Progress write_reply(Client& client);
  Progress read_ready(Client& client);
  /// READY or its path may be lost: asks the sender's process whether it has the connection.
  bool is_ready_elsewhere(Client& client);
  Progress drop(const Client& client, const std::string& reason);
  Progress refuse(Client& client, const std::string& reason);
  /// Returns false if its port is down and the client has to wait.
  Result<bool> welcome(Client& client, const WireMessage& request);
  Result<bool> welcome_tcp(Client& client, const WireMessage& request);
  std::unique_ptr<Endpoint> connection_of(Client& client);
  std::string waits_for() const;

  Transport& transport_;
  int dev_;
  ContextSettings owner_;
  std::vector<Nic> nics_;  // when the handle was made, which contains their addresses
  std::uint64_t cookie_;
  std::int64_t begun_ns_;
  std::mutex mutex_;
  Neighbours neighbours_;
  FirstMessages first_messages_;
  RareWarnings dropped_, refused_;
  std::vector<Arrival> arrivals_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Endpoint>> finished_;
  std::int64_t asked_ns_ = 0;  // when take() was last called; 0: never
  std::uint64_t taken_ = 0;
};

}  // namespace meshbed::net
