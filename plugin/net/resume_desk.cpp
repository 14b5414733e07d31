#include "plugin/net/resume_desk.h"

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/answering.h"
#include "plugin/net/receive.h"
#include "plugin/net/sessions.h"
#include "plugin/net/transport.h"

namespace meshbed::net {

ResumeDesk::~ResumeDesk() {
  for (const auto& client : clients_) release(*client);
}

void ResumeDesk::take(Arrival arrival) {
  auto client = std::make_unique<Client>();
  client->arrival = std::move(arrival);
  client->session = client->arrival.message.cookie;
  client->deadline = Deadline::in_ms(transport_.config().number(Variable::kAcceptTimeoutSec) * 1000);
  // A sender that comes again has given up the attempt before.
  std::erase_if(clients_, [&](const auto& other) { return other->session == client->session; });
  auto local = local_end_for(transport_, client->arrival.local.address, client->arrival.remote.address,
                             client->arrival.message.end);
  if (local) {
    client->local = std::move(*local);
    client->mtu = std::min(client->local.nic.mtu, client->arrival.message.end.mtu);
  } else {
    refuse(*client, WireType::kRefuse, local.error().text);
  }
  clients_.push_back(std::move(client));
}

void ResumeDesk::watch(std::vector<pollfd>& watched) const {
  for (const auto& client : clients_) {
    const bool reads = client->state == State::kReady;
    watched.push_back({.fd = client->arrival.socket.descriptor(),
                       .events = static_cast<short>(reads ? POLLIN : POLLOUT),
                       .revents = 0});
  }
}

void ResumeDesk::advance() {
  std::erase_if(clients_, [this](const auto& client) {
    if (advance(*client)) return false;
    release(*client);
    return true;
  });
}

bool ResumeDesk::advance(Client& client) {
  if (client.deadline.passed()) return drop(client, "it did not finish in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  if (client.state == State::kTakeUp && !take_up(client)) return true;
  if (client.state == State::kReady) return read_ready(client);
  auto written = client.writer.write(client.arrival.socket);
  if (!written) return drop(client, written.error().text);
  if (!*written) return true;
  if (client.state == State::kRefusing) return false;
  client.state = State::kReady;
  return true;
}

/// False: not yet.
bool ResumeDesk::take_up(Client& client) {
  const bool known = transport_.sessions().with(
      client.session, [&](ReceiveConnection& connection) { try_to_take_up(client, connection); });
  if (!known) refuse(client, WireType::kGone, "it is closed");
  return client.state != State::kTakeUp;
}

void ResumeDesk::try_to_take_up(Client& client, ReceiveConnection& connection) {
  const Connection::Turn turn = connection.claim();
  if (!turn) return;
  auto end = connection.take_up(client.local, client.arrival.message.end, client.mtu);
  if (!end) {
    refuse(client, connection.over() ? WireType::kGone : WireType::kRefuse, end.error().text);
    return;
  }
  if (!*end) return;
  WireMessage reply{.type = WireType::kResumed, .cookie = client.session, .end = **end, .reason = ""};
  reply.end.mtu = client.mtu;
  reply.served = connection.served();
  reply.session = client.session;
  reply.session_port = client.local.service_port;
  client.writer.start(reply);
  client.state = State::kReply;
}

bool ResumeDesk::read_ready(Client& client) {
  auto message = client.reader.read(client.arrival.socket);
  if (!message) return drop(client, message.error().text);
  if (!*message) return true;
  if ((*message)->type != WireType::kReady || (*message)->cookie != client.session) {
    return drop(client, "it did not end its handshake properly");
  }
  bool announced = false;
  transport_.sessions().with(client.session, [&](ReceiveConnection& connection) {
    const Connection::Turn turn = connection.claim();
    if (!turn) return;
    connection.announce_anew();
    announced = true;
  });
  return !announced && drop(client, "its connection was closed meanwhile");
}

void ResumeDesk::refuse(Client& client, WireType type, const std::string& why) {
  MESHBED_INFO("client %s, which wants to take up a connection again, is refused: %s",
               to_text(client.arrival.remote.address).c_str(), why.c_str());
  client.writer.start({.type = type, .cookie = client.session, .end = {}, .reason = why});
  client.state = State::kRefusing;
}

bool ResumeDesk::drop(const Client& client, const std::string& why) {
  MESHBED_INFO("client %s, which wants to take up a connection again, is dropped: %s",
               to_text(client.arrival.remote.address).c_str(), why.c_str());
  return false;
}

void ResumeDesk::release(const Client& client) {
  transport_.sessions().with(client.session, [](ReceiveConnection& connection) { connection.release_claim(); });
}

}  // namespace meshbed::net
