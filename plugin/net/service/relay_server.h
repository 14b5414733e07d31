#pragma once
// The service's listener, and the handshake of circuits through this node: receives ROUTE and REQUEST from the previous
// node, connects to the next one, and only then replies, so that a chain is set up as a whole or not at all. Belongs to
// the service's thread.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/rare_warnings.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/answering.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/connect/first_messages.h"
#include "plugin/net/connect/whereabouts.h"
#include "plugin/net/relay/circuit.h"
#include "plugin/net/service/resume_server.h"

namespace meshbed::net {

class ProcessLinks;

class RelayServer {
 public:
  using Circuits = std::vector<std::unique_ptr<Circuit>>;

  /// `channels`: one for each device, in the order of the transport's devices.
  RelayServer(ProcessLinks& process, std::span<const verbs::CompletionChannel> channels)
      : process_(process), channels_(channels), neighbours_(process) {}

  Result<void> open();
  std::uint16_t port() const { return first_messages_.queue().port(); }
  /// Advances all clients; appends finished circuits to `circuits`, and clients that do not want a circuit to `others`.
  void advance(Circuits& circuits, std::vector<Arrival>& others);
  bool busy() const { return !clients_.empty(); }
  /// Whether it connects to a next node, with steps that no socket announces.
  bool connects() const;
  /// Whether a chain through this process is being made, so that the end of the process must wait. Clients that have
  /// only sent ROUTE do not count.
  bool makes_chains() const;
  /// Whether clients have connected without a first message; the end of the process does not wait for them.
  bool has_callers() const { return !first_messages_.queue().empty() || first_messages_.queue().is_paused(); }
  /// Adds what poll(2) should wait for while it is busy or has callers.
  void watch(std::vector<pollfd>& watched) const;
  int descriptor() const { return first_messages_.queue().descriptor(); }

 private:
  static constexpr std::int64_t kRequestMs = 1000, kLookBackMs = 100;
  enum class State { kRequest, kOnward, kReply, kReady, kReadyOnward, kRefusing };
  struct Client {
    Socket socket;
    SocketAddress local, remote;
    bool over_cable = false;
    Deadline deadline;
    Deadline due = Deadline::after_ms_or_never(kRequestMs);  // its REQUEST, which a sender sends with its ROUTE
    Deadline next_look_back = Deadline::after_ms_or_never(kLookBackMs);  // while it waits for the next one
    State state = State::kRequest;
    MessageReader reader;
    MessageWriter writer;
    std::uint64_t circuit = 0;
    WireRoute route;
    WireEnd peer;
    std::string name;
    std::unique_ptr<RelayEntry> entry;
    std::unique_ptr<RelayExit> exit;
    std::unique_ptr<Connecting> connecting;  // its QP link
    std::optional<Whereabouts> whereabouts;  // of the dialled process
    std::uint32_t events = 0;                // port_events() when our ports were last checked
  };

  static constexpr std::size_t kClientsMost = 256;

  void greet(Arrival arrival, Circuits& circuits, std::vector<Arrival>& others);
  /// Makes room for one more client. Returns false if the new client must be rejected.
  bool make_room(const Arrival& newcomer, Circuits& circuits);
  /// Returns false if the client is finished or has failed.
  bool attend_to(Client& client, Circuits& circuits);
  Result<bool> advance(Client& client);
  Result<bool> read_request(Client& client);
  Result<void> go_onward(Client& client);
  /// The MTU of the client's path to our entry.
  static std::uint8_t mtu_of(const Client& client);
  Result<bool> connect_onward(Client& client);
  Result<bool> look_back(Client& client);
  /// Why the dialled node cannot reply any more, so that the client can look for another path; empty: it may reply.
  std::string dead_end(Client& client);
  Result<bool> read_ready(Client& client);
  std::unique_ptr<Circuit> to_circuit(Client& client);
  void drop(const SocketAddress& remote, const std::string& why);
  void turn_away(Socket& socket, const SocketAddress& remote, std::uint64_t circuit);
  void refuse(Client& client, const std::string& why, WireType type = WireType::kRefuse, std::uint64_t served = 0);
  ibv_comp_channel* channel_of(const Nic& nic) const;

  ProcessLinks& process_;
  std::span<const verbs::CompletionChannel> channels_;
  FirstMessages first_messages_;
  std::vector<Arrival> arrivals_;
  std::vector<std::unique_ptr<Client>> clients_;
  Neighbours neighbours_;
  RareWarnings turned_away_, dropped_, refused_;
};

}  // namespace meshbed::net
