#pragma once
// The service's door, and where circuits through this node begin: takes ROUTE and REQUEST from the one before us,
// connects to the one after us, and only then answers, so that a chain stands as a whole or not at all. Belongs to the
// relay service's thread.

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

  /// `channels`: one a device, in the order of the transport's devices.
  RelayServer(ProcessLinks& process, std::span<const verbs::CompletionChannel> channels)
      : process_(process), channels_(channels), neighbours_(process) {}

  Result<void> open();
  std::uint16_t port() const { return first_messages_.queue().port(); }
  /// Advances all clients; what has become a circuit is appended, and so are those who want something else than a
  /// circuit.
  void advance(Circuits& circuits, std::vector<Arrival>& others);
  bool busy() const { return !clients_.empty(); }
  /// Connects to the next one for somebody, with steps that no socket tells of.
  bool connects() const;
  /// A chain through this process is being made: who means to end it waits. Not for those who only asked for one.
  bool makes_chains() const;
  /// Somebody came who has not said yet what he wants: nobody need wait for him.
  bool has_callers() const { return !first_messages_.queue().empty() || first_messages_.queue().is_paused(); }
  /// Adds what poll(2) should look for while it is busy or has callers.
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
    std::optional<Whereabouts> whereabouts;  // of who is dialled
    std::uint32_t events = 0;                // port events, when we last looked at our own
  };

  static constexpr std::size_t kClientsMost = 256;

  void greet(Arrival arrival, Circuits& circuits, std::vector<Arrival>& others);
  /// For one more client. False: the one who has to go is he.
  bool make_room(const Arrival& newcomer, Circuits& circuits);
  /// False: the client is done with, one way or the other.
  bool attend_to(Client& client, Circuits& circuits);
  Result<bool> advance(Client& client);
  Result<bool> read_request(Client& client);
  Result<void> go_onward(Client& client);
  /// Of its path to our entry.
  static std::uint8_t mtu_of(const Client& client);
  Result<bool> connect_onward(Client& client);
  Result<bool> look_back(Client& client);
  /// Why what is being dialled cannot answer any more: who began this finds another way sooner. Empty: it may.
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
