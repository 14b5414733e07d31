#include "plugin/net/service/relay_server.h"

#include <algorithm>

#include "plugin/base/crowd.h"
#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/service/service_thread.h"

namespace meshbed::net {

Result<void> RelayServer::open() {
  return first_messages_.open(
      has_ipv6(process_.nics()) || !process_.link_local_nics().empty(),
      {.name = "service",
       .patience_name = "NCCL_MESH_ACCEPT_TIMEOUT_SEC",
       .patience_ms = process_.config().number(Variable::kAcceptTimeoutSec) * 1000,
       .has_visitors = true,  // failback.h
       .is_over_cable = [this](const auto& own, const auto& client) { return neighbours_.include(own, client); }});
}

bool RelayServer::connects() const {
  return std::any_of(clients_.begin(), clients_.end(), [](const auto& client) {
    return client->state == State::kOnward || client->state == State::kReadyOnward;
  });
}

bool RelayServer::makes_chains() const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->entry != nullptr && client->state != State::kRefusing; });
}

/// Removes a client that has not sent its REQUEST; a neighbour is kept as long as its time is not over. If the
/// client's REQUEST has arrived meanwhile, it is processed instead. If none can be removed, the newcomer is refused.
bool RelayServer::make_room(const Arrival& newcomer, Circuits& circuits) {
  while (clients_.size() >= kClientsMost) {
    std::vector<Waiting> waiting;
    std::vector<std::size_t> places;
    for (std::size_t place = 0; place < clients_.size(); ++place) {
      const Client& client = *clients_[place];
      if (client.state != State::kRequest) continue;
      waiting.push_back({.from = client.remote.address, .spared = client.over_cable && !client.due.passed()});
      places.push_back(place);
    }
    waiting.push_back({.from = newcomer.remote.address, .spared = newcomer.over_cable});
    const auto chosen = select_victim(waiting);
    if (!chosen || *chosen == places.size()) return false;
    const auto goes = clients_.begin() + static_cast<std::ptrdiff_t>(places[*chosen]);
    Client& client = **goes;
    const bool stays = attend_to(client, circuits);
    if (stays && client.state != State::kRequest) continue;
    if (stays) turn_away(client.socket, client.remote, client.circuit);
    clients_.erase(goes);
  }
  return true;
}

/// Sends REFUSE, as far as the socket accepts it at once, because the client is not kept.
void RelayServer::turn_away(Socket& socket, const SocketAddress& remote, std::uint64_t circuit) {
  const std::string why = "it makes " + std::to_string(kClientsMost) + " chains already: try again";
  MessageWriter writer;
  writer.start({.type = WireType::kRefuse, .cookie = circuit, .end = {}, .reason = why});
  (void)writer.write(socket);
  const LogLevel level = turned_away_.next();
  MESHBED_LOG(level, "relay: client %s is refused: %s%s", to_text(remote.address).c_str(), why.c_str(),
              turned_away_.so_far("were turned away").c_str());
}

void RelayServer::advance(Circuits& circuits, std::vector<Arrival>& others) {
  // A failure was logged; the present clients go on.
  (void)first_messages_.advance(arrivals_);
  for (Arrival& arrival : arrivals_) greet(std::move(arrival), circuits, others);
  arrivals_.clear();
  for (auto& client : clients_) {
    if (!attend_to(*client, circuits)) client.reset();
  }
  std::erase(clients_, nullptr);
}

bool RelayServer::attend_to(Client& client, Circuits& circuits) {
  auto stays = advance(client);
  if (!stays) drop(client.remote, stays.error().text);
  if (stays && *stays) return true;
  if (stays && client.state == State::kReadyOnward) circuits.push_back(to_circuit(client));
  return false;
}

void RelayServer::greet(Arrival arrival, Circuits& circuits, std::vector<Arrival>& others) {
  const WireMessage& message = arrival.message;
  if (ResumeServer::is_for(message.type)) {
    others.push_back(std::move(arrival));
    return;
  }
  if (message.type != WireType::kRoute) return drop(arrival.remote, "it did not begin with a route");
  if (!make_room(arrival, circuits)) return turn_away(arrival.socket, arrival.remote, message.cookie);
  auto client = std::make_unique<Client>();
  client->circuit = message.cookie;
  client->route = message.route;
  client->socket = std::move(arrival.socket);
  client->local = arrival.local;
  client->remote = arrival.remote;
  client->over_cable = arrival.over_cable;
  client->deadline = arrival.deadline;
  if (!process_.config().flag(Variable::kEnableRelay)) {
    refuse(*client, "relays are off here (NCCL_MESH_ENABLE_RELAY=0)");
  } else if (process_.config().flag(Variable::kDisableRdma)) {
    refuse(*client, "RDMA is off here (NCCL_MESH_DISABLE_RDMA=1)");
  }
  clients_.push_back(std::move(client));
}

void RelayServer::drop(const SocketAddress& remote, const std::string& why) {
  const LogLevel level = dropped_.next();
  MESHBED_LOG(level, "relay: client %s is dropped: %s%s", to_text(remote.address).c_str(), why.c_str(),
              dropped_.so_far("were dropped").c_str());
}

void RelayServer::watch(std::vector<pollfd>& watched) const {
  first_messages_.queue().watch(watched);
  for (const auto& client : clients_) {
    const bool writes = client->state == State::kReply || client->state == State::kRefusing;
    if (client->state == State::kOnward || client->state == State::kReadyOnward) {
      watched.push_back(client->connecting->watched());
    } else {
      watched.push_back(
          {.fd = client->socket.descriptor(), .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0});
    }
  }
}

Result<bool> RelayServer::advance(Client& client) {
  if (client.deadline.passed())
    return handshake_error("it did not finish its handshake in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  // Each step returns true if the next one may follow at once.
  Result<bool> moved = true;
  while (moved && *moved) {
    switch (client.state) {
      case State::kRequest:
        moved = read_request(client);
        break;
      case State::kOnward:
        moved = connect_onward(client);
        break;
      case State::kReply:
        moved = client.writer.write(client.socket);
        if (moved && *moved) client.state = State::kReady;
        break;
      case State::kReady:
        moved = read_ready(client);
        break;
      case State::kReadyOnward:
        moved = client.connecting->advance();
        if (moved && *moved) return false;
        break;
      case State::kRefusing:
        moved = client.writer.write(client.socket);
        if (moved && *moved) return false;
        break;
    }
  }
  if (!moved) return moved.error();
  return true;
}

Result<bool> RelayServer::read_request(Client& client) {
  auto message = client.reader.read(client.socket);
  if (!message) return message.error();
  if (!*message) return false;
  if ((*message)->type != WireType::kRequest || (*message)->cookie != client.circuit) {
    return handshake_error("its request does not belong to its route");
  }
  client.peer = (*message)->end;
  if (auto gone = go_onward(client); !gone) refuse(client, gone.error().text);
  return true;
}

std::uint8_t RelayServer::mtu_of(const Client& client) {
  return std::min(client.entry->local().nic.mtu, client.peer.mtu);
}

/// Opens our end for the previous node, and takes the first step towards the next one.
Result<void> RelayServer::go_onward(Client& client) {
  auto local = local_end_for(process_, client.local.address, client.remote.address, client.peer);
  if (!local) return local.error();
  const ConnectionSettings settings = process_.settings_for(-1);
  auto entry = RelayEntry::create(*local, process_.receiving_settings_for(-1), channel_of(local->nic), client.circuit);
  if (!entry) return entry.error();
  client.entry = std::move(*entry);

  const bool to_receiver = client.route.onward.empty();
  auto handle = decode_handle(client.route.handle);
  if (!handle) return handle.error();
  const std::vector<Nic> nics = process_.current_nics();
  std::vector<PeerAddress> there = handle->addresses;
  if (!to_receiver) there = {{.prefix = client.route.onward.front().address, .nic = 0}};
  auto route = choose_route({.nics = &nics,
                             .peer = there,
                             .dev = 0,
                             .peer_dev = to_receiver ? handle->dev : 0,
                             .gids = process_.gid_preference()});
  if (!route) return route.error();
  const Nic& nic = nics[static_cast<std::size_t>(route->nic)];
  auto leaving = RelayExit::create(process_.local_end(nic, route->local, route->gid), settings, channel_of(nic),
                                   {.window = client.entry->window(), .to_receiver = to_receiver});
  if (!leaving) return leaving.error();
  client.name =
      to_text(client.remote.address) + " -> " + to_text(route->remote.prefix.address) + (to_receiver ? "" : " (relay)");
  client.exit = std::move(*leaving);
  Destination destination{.route = *route,
                          .target = {.address = route->remote.prefix.address,
                                     .port = to_receiver ? handle->tcp_port : client.route.onward.front().port},
                          .cookie = to_receiver ? handle->cookie : client.circuit,
                          .resumes = client.route.resumes,
                          .keeps_ready = true,
                          .dial_ms = process_.chain_dial_ms()};
  // Join now and not when the chain is complete: our kernel has just resolved the peer's Ethernet address. The peer may
  // be gone later, and resolving it in vain would delay all clients by a second (local_end_for).
  if (auto joined = client.entry->qp_link().join(client.peer, mtu_of(client)); !joined) return joined.error();
  if (!to_receiver) {
    destination.onward = client.route;
    destination.onward->onward.erase(destination.onward->onward.begin());
    ++destination.onward->hop;
  }
  const ProcessKey next = to_receiver ? process_of(*handle)
                                      : ProcessKey{.node = client.route.onward.front().node,
                                                   .circuit_port = client.route.onward.front().port};
  client.whereabouts.emplace(next, destination.target.address);
  client.events = process_.port_events();
  client.connecting = std::make_unique<Connecting>(process_, std::move(destination), client.exit->qp_link());
  client.state = State::kOnward;
  return ok();
}

Result<bool> RelayServer::connect_onward(Client& client) {
  auto connected = client.connecting->advance();
  if (!connected) {
    const Connecting& onward = *client.connecting;
    refuse(client, connected.error().text, onward.is_final() ? WireType::kGone : WireType::kRefuse, onward.served());
    return true;
  }
  if (!*connected) {
    if (const std::string why = dead_end(client); !why.empty()) {
      refuse(client, why);
      return true;
    }
    return look_back(client);
  }
  client.exit->begin_at(client.connecting->served());
  WireMessage reply{
      .type = WireType::kResumed, .cookie = client.circuit, .end = client.entry->qp_link().describe(), .reason = ""};
  reply.served = client.connecting->served();
  reply.session = client.connecting->session();
  reply.session_port = client.connecting->session_port();
  reply.end.mtu = mtu_of(client);
  client.writer.start(reply);
  client.state = State::kReply;
  return true;
}

std::string RelayServer::dead_end(Client& client) {
  if (client.events != process_.port_events()) {
    client.events = process_.port_events();
    const LocalEnd& own = client.exit->local();
    // A port that is down may come back; one with another address or GID does not.
    const std::vector<Nic> nics = process_.current_nics();
    const auto port = own.port_in(nics);
    const bool is_up = port != nics.end() && port->link_up;
    if (is_up && !own.stands(nics)) return client.name + ": our address or GID there has changed";
  }
  PeerDiscovery* discovery = process_.service()->discovery();
  std::vector<PeerAddress> known;
  if (discovery == nullptr || !client.whereabouts->has_left(*discovery, known)) return "";
  return client.name + ": it has left that address";
}

/// Checks whether the client has given up: otherwise this could go on for ever if handshakes have no time limit.
Result<bool> RelayServer::look_back(Client& client) {
  if (!client.next_look_back.passed()) return false;
  client.next_look_back = Deadline::after_ms_or_never(kLookBackMs);
  auto message = client.reader.read(client.socket);
  if (!message) return message.error();
  if (*message) return handshake_error("it sent more before our reply");
  return false;
}

Result<bool> RelayServer::read_ready(Client& client) {
  auto message = client.reader.read(client.socket);
  if (!message) return message.error();
  if (!*message) return false;
  if ((*message)->type != WireType::kReady || (*message)->cookie != client.circuit) {
    return handshake_error("it did not end its handshake properly");
  }
  // Not before: the client may have found another path meanwhile, and then no accept() must return for this one.
  client.connecting->go_ahead();
  client.state = State::kReadyOnward;
  return true;
}

std::unique_ptr<Circuit> RelayServer::to_circuit(Client& client) {
  return std::make_unique<Circuit>(Circuit::Parts{.number = client.circuit,
                                                  .name = client.name,
                                                  .entry = std::move(client.entry),
                                                  .exit = std::move(client.exit),
                                                  .upstream = std::move(client.socket),
                                                  .downstream = client.connecting->take_control(),
                                                  .to_receiver = client.route.onward.empty()});
}

void RelayServer::refuse(Client& client, const std::string& why, WireType type, std::uint64_t served) {
  const LogLevel level = refused_.next();
  MESHBED_LOG(level, "relay: client %s is refused: %s%s", to_text(client.remote.address).c_str(), why.c_str(),
              refused_.so_far("were refused").c_str());
  client.writer.start({.type = type, .cookie = client.circuit, .end = {}, .reason = why, .served = served});
  client.state = State::kRefusing;
}

ibv_comp_channel* RelayServer::channel_of(const Nic& nic) const {
  return channels_[static_cast<std::size_t>(nic.device)].raw();
}

}  // namespace meshbed::net
