#include "plugin/net/relay_desk.h"

#include <algorithm>
#include <cerrno>

#include "plugin/base/log.h"
#include "plugin/net/answering.h"
#include "plugin/net/transport.h"

namespace meshbed::net {

Result<void> RelayDesk::open() {
  auto socket = Socket::listen_anywhere(has_ipv6(transport_.nics()));
  if (!socket) return socket.error();
  socket_ = std::move(*socket);
  auto port = socket_.local_port();
  if (!port) return port.error();
  port_ = *port;
  return ok();
}

void RelayDesk::advance(std::vector<std::unique_ptr<Circuit>>& circuits, std::vector<Arrival>& others) {
  admit_clients();
  for (auto& client : clients_) {
    auto stays = advance(*client);
    if (!stays) {
      // Who comes and goes without a word only wanted to know whether the way stands (homecoming.h).
      const bool silent = client->state == State::kRoute && stays.error().os_errno == ECONNRESET;
      MESHBED_LOG(silent ? LogLevel::kTrace : LogLevel::kWarn, "relay: client %s is dropped: %s",
                  to_text(client->remote.address).c_str(), stays.error().text.c_str());
      client.reset();
    } else if (!*stays) {
      if (client->state == State::kReady) circuits.push_back(to_circuit(*client));
      if (client->state == State::kOther) {
        others.push_back({.socket = std::move(client->socket),
                          .local = client->local,
                          .remote = client->remote,
                          .message = std::move(*client->other)});
      }
      client.reset();
    }
  }
  std::erase(clients_, nullptr);
}

void RelayDesk::admit_clients() {
  for (;;) {
    auto arrived = socket_.accept_client();
    if (!arrived) MESHBED_WARN("relay: %s", arrived.error().text.c_str());
    if (!arrived || !*arrived) return;
    auto client = std::make_unique<Client>();
    client->socket = std::move((*arrived)->socket);
    client->local = (*arrived)->local;
    client->remote = (*arrived)->remote;
    client->deadline = Deadline::in_ms(transport_.config().number(Variable::kAcceptTimeoutSec) * 1000);
    clients_.push_back(std::move(client));
  }
}

void RelayDesk::watch(std::vector<pollfd>& watched) const {
  for (const auto& client : clients_) {
    const bool writes = client->state == State::kReply || client->state == State::kRefusing;
    if (client->state == State::kOnward) {
      watched.push_back(client->connecting->watched());
    } else {
      watched.push_back(
          {.fd = client->socket.descriptor(), .events = static_cast<short>(writes ? POLLOUT : POLLIN), .revents = 0});
    }
  }
}

Result<bool> RelayDesk::advance(Client& client) {
  if (client.deadline.passed())
    return handshake_error("it did not finish its handshake in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  // Each step says true where the next one may follow at once.
  Result<bool> moved = true;
  while (moved && *moved) {
    switch (client.state) {
      case State::kRoute:
        moved = read_route(client);
        break;
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
        if (moved && *moved) return false;
        break;
      case State::kRefusing:
        moved = client.writer.write(client.socket);
        if (moved && *moved) return false;
        break;
      case State::kOther:
        return false;
    }
  }
  if (!moved) return moved.error();
  return true;
}

Result<bool> RelayDesk::read_route(Client& client) {
  auto message = client.reader.read(client.socket);
  if (!message) return message.error();
  if (!*message) return false;
  const WireType type = (*message)->type;
  if (type == WireType::kResume || type == WireType::kRail || type == WireType::kKnock) {
    client.other = std::move(**message);
    client.state = State::kOther;
    return true;
  }
  if (type != WireType::kRoute) return handshake_error("it did not begin with a route");
  client.circuit = (*message)->cookie;
  client.route = (*message)->route;
  client.state = State::kRequest;
  if (!transport_.config().flag(Variable::kEnableRelay))
    refuse(client, "relays are off here (NCCL_MESH_ENABLE_RELAY=0)");
  return true;
}

Result<bool> RelayDesk::read_request(Client& client) {
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

/// Our end for the one before us, and the first step towards the one after us.
Result<void> RelayDesk::go_onward(Client& client) {
  auto local = local_end_for(transport_, client.local.address, client.remote.address, client.peer);
  if (!local) return local.error();
  const ConnectionSettings settings = transport_.settings_for(-1);
  auto entry =
      RelayEntry::create(*local, transport_.receiving_settings_for(-1), channel_of(local->nic), client.circuit);
  if (!entry) return entry.error();
  client.entry = std::move(*entry);

  const bool to_receiver = client.route.onward.empty();
  auto handle = decode_handle(client.route.handle);
  if (!handle) return handle.error();
  const std::vector<Nic> nics = transport_.current_nics();
  std::vector<PeerAddress> there = handle->addresses;
  if (!to_receiver) there = {{.prefix = client.route.onward.front().address, .nic = 0}};
  auto route = choose_route({.nics = &nics,
                             .peer = there,
                             .dev = 0,
                             .peer_dev = to_receiver ? handle->dev : 0,
                             .gids = transport_.gid_preference()});
  if (!route) return route.error();
  const Nic& nic = nics[static_cast<std::size_t>(route->nic)];
  auto leaving = RelayExit::create(transport_.local_end(nic, route->local, route->gid), settings, channel_of(nic),
                                   {.window = client.entry->window(), .to_receiver = to_receiver});
  if (!leaving) return leaving.error();
  client.name =
      to_text(client.remote.address) + " -> " + to_text(route->remote.prefix.address) + (to_receiver ? "" : " (relay)");
  client.exit = std::move(*leaving);
  Destination destination{.route = *route,
                          .target = {.address = route->remote.prefix.address,
                                     .port = to_receiver ? handle->tcp_port : client.route.onward.front().port},
                          .cookie = to_receiver ? handle->cookie : client.circuit,
                          .resumes = client.route.resumes};
  if (!to_receiver) {
    destination.onward = client.route;
    destination.onward->onward.erase(destination.onward->onward.begin());
    ++destination.onward->hop;
  }
  client.connecting = std::make_unique<Connecting>(transport_, std::move(destination), client.exit->leg());
  client.state = State::kOnward;
  return ok();
}

Result<bool> RelayDesk::connect_onward(Client& client) {
  auto connected = client.connecting->advance();
  if (!connected) {
    const Connecting& onward = *client.connecting;
    refuse(client, connected.error().text, onward.is_final() ? WireType::kGone : WireType::kRefuse, onward.served());
    return true;
  }
  if (!*connected) return false;
  client.exit->begin_at(client.connecting->served());
  const std::uint8_t mtu = std::min(client.entry->local().nic.mtu, client.peer.mtu);
  if (auto joined = client.entry->leg().join(client.peer, mtu); !joined) {
    refuse(client, joined.error().text);
    return true;
  }
  WireMessage reply{
      .type = WireType::kResumed, .cookie = client.circuit, .end = client.entry->leg().describe(), .reason = ""};
  reply.served = client.connecting->served();
  reply.session = client.connecting->session();
  reply.session_port = client.connecting->session_port();
  reply.end.mtu = mtu;
  client.writer.start(reply);
  client.state = State::kReply;
  return true;
}

Result<bool> RelayDesk::read_ready(Client& client) {
  auto message = client.reader.read(client.socket);
  if (!message) return message.error();
  if (!*message) return false;
  if ((*message)->type != WireType::kReady || (*message)->cookie != client.circuit) {
    return handshake_error("it did not end its handshake properly");
  }
  return true;
}

std::unique_ptr<Circuit> RelayDesk::to_circuit(Client& client) {
  const bool to_receiver = client.route.onward.empty();
  Socket downstream = client.connecting->take_control();
  if (to_receiver) downstream.close();  // a receiver has no use for it
  return std::make_unique<Circuit>(Circuit::Parts{.number = client.circuit,
                                                  .name = client.name,
                                                  .entry = std::move(client.entry),
                                                  .exit = std::move(client.exit),
                                                  .upstream = std::move(client.socket),
                                                  .downstream = std::move(downstream)});
}

void RelayDesk::refuse(Client& client, const std::string& why, WireType type, std::uint64_t served) {
  MESHBED_WARN("relay: client %s is refused: %s", to_text(client.remote.address).c_str(), why.c_str());
  client.writer.start({.type = type, .cookie = client.circuit, .end = {}, .reason = why, .served = served});
  client.state = State::kRefusing;
}

ibv_comp_channel* RelayDesk::channel_of(const Nic& nic) const {
  return channels_[static_cast<std::size_t>(nic.device)].raw();
}

}  // namespace meshbed::net
