#include "plugin/net/service/resume_server.h"

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/connect/answering.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/link/sessions.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kPatienceS = 30;

}  // namespace

ResumeServer::~ResumeServer() {
  for (const auto& client : clients_) release(*client);
}

bool ResumeServer::is_for(WireType type) {
  return type == WireType::kResume || type == WireType::kRail || type == WireType::kLivenessCheck ||
         type == WireType::kMoved;
}

void ResumeServer::take(Arrival arrival) {
  auto client = std::make_unique<Client>();
  client->arrival = std::move(arrival);
  client->session = client->arrival.message.cookie;
  // Always bounded, because it keeps a connection's owner waiting.
  const std::int64_t patience_s = process_.config().number(Variable::kAcceptTimeoutSec);
  client->deadline = Deadline::after_ms_or_never((patience_s > 0 ? patience_s : kPatienceS) * 1000);
  const WireType type = client->arrival.message.type;
  if (type == WireType::kLivenessCheck || type == WireType::kMoved) {
    answer_for_sender(*client);
    clients_.push_back(std::move(client));
    return;
  }
  // A sender that connects again has given up its earlier attempt.
  std::erase_if(clients_, [&](const auto& other) {
    return other->session == client->session && other->arrival.message.type == client->arrival.message.type &&
           other->arrival.message.rail.number == client->arrival.message.rail.number && other->state != State::kGoOn;
  });
  auto local = local_end_for(process_, client->arrival.local.address, client->arrival.remote.address,
                             client->arrival.message.end);
  if (local) {
    client->local = std::move(*local);
    client->mtu = std::min(client->local.nic.mtu, client->arrival.message.end.mtu);
  } else {
    refuse(*client, WireType::kRefuse, local.error().text);
  }
  clients_.push_back(std::move(client));
}

void ResumeServer::answer_for_sender(Client& client) {
  const WireMessage& message = client.arrival.message;
  const bool moved = message.type == WireType::kMoved;
  const bool there = moved ? process_.sessions().tell_sender(client.session, message.end)
                           : process_.sessions().has_sender(client.session);
  if (there && moved) process_.note_event();  // so that the connection checks its ports
  client.writer.start({.type = there ? WireType::kThere : WireType::kGone,
                       .cookie = client.session,
                       .end = {},
                       .reason = there ? "" : "it is closed"});
  client.state = State::kAnswering;
}

void ResumeServer::watch(std::vector<pollfd>& watched) const {
  for (const auto& client : clients_) {
    const bool reads = client->state == State::kReady;
    watched.push_back({.fd = client->arrival.socket.descriptor(),
                       .events = static_cast<short>(reads ? POLLIN : POLLOUT),
                       .revents = 0});
  }
}

void ResumeServer::advance() {
  std::erase_if(clients_, [this](const auto& client) {
    if (advance(*client)) return false;
    release(*client);
    return true;
  });
}

bool ResumeServer::advance(Client& client) {
  if (client.deadline.passed()) return drop(client, "it did not finish in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  if (client.state == State::kTakeUp && !take_up(client)) return true;
  // If its connection is closed, the handshake is useless; a sender whose address is gone would never end it.
  const bool waits = client.state == State::kReply || client.state == State::kReady;
  if (waits && !process_.sessions().has(client.session)) return drop(client, "its connection was closed meanwhile");
  if (client.state == State::kReady) return read_ready(client);
  if (client.state == State::kGoOn) return go_on(client);
  auto written = client.writer.write(client.arrival.socket);
  if (!written) return drop(client, written.error().text);
  if (!*written) return true;
  if (client.state == State::kAnswering) return false;
  client.state = State::kReady;
  return true;
}

/// Registers the awaited memory. The sessions' lock is not held, because pinning memory takes long and every open or
/// close of a connection would wait. The claim keeps the connection's owner from posting more until it is resumed.
/// Returns false if it is not done yet.
bool ResumeServer::register_memory(Client& client) {
  std::vector<Memory*> memories;
  bool waits = false;
  process_.sessions().with(client.session, [&](ReceiveConnection& connection) {
    const Connection::Turn turn = connection.claim(Connection::kToTakeUp);
    waits = !turn;
    if (turn) memories = connection.hold_awaited_memory();
  });
  for (Memory* memory : memories) {
    memory->on(*client.local.device);
    memory->drop();
  }
  client.has_memory = !waits;
  return client.has_memory;
}

/// Returns false if it is not possible yet.
bool ResumeServer::take_up(Client& client) {
  if (!client.lays_rail() && !client.has_memory && !register_memory(client)) {
    Connection::Turn::pass();
    return false;
  }
  const bool known = process_.sessions().with(client.session, [&](ReceiveConnection& connection) {
    client.lays_rail() ? try_to_lay_rail(client, connection) : try_to_take_up(client, connection);
  });
  if (!known) refuse(client, WireType::kGone, "it is closed", process_.sessions().served_in_the_end(client.session));
  // The owner has the turn. poll(2) would find the client's socket ready and not wait, so yield here.
  if (client.state == State::kTakeUp) Connection::Turn::pass();
  return client.state != State::kTakeUp;
}

void ResumeServer::try_to_take_up(Client& client, ReceiveConnection& connection) {
  const Connection::Turn turn = connection.claim(Connection::kToTakeUp);
  if (!turn) return;
  auto end = connection.take_up(client.local, client.arrival.message.end, client.mtu);
  if (!end) {
    refuse(client, connection.over() ? WireType::kGone : WireType::kRefuse, end.error().text, connection.served());
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

void ResumeServer::try_to_lay_rail(Client& client, ReceiveConnection& connection) {
  const Connection::Turn turn = connection.claim(Connection::kToTakeUp);
  if (!turn) return;
  const WireRail& rail = client.arrival.message.rail;
  auto end =
      connection.lay_rail(rail.number, rail.sender_qp_link, client.local, client.arrival.message.end, client.mtu);
  // The owner may use the connection until READY arrives.
  connection.release_claim(Connection::kToTakeUp);
  if (!end) {
    refuse(client, WireType::kRefuse, end.error().text);
    return;
  }
  WireMessage reply{.type = WireType::kRailed, .cookie = client.session, .end = *end, .reason = ""};
  reply.end.mtu = client.mtu;
  client.writer.start(reply);
  client.state = State::kReply;
}

bool ResumeServer::read_ready(Client& client) {
  auto message = client.reader.read(client.arrival.socket);
  if (!message) return drop(client, message.error().text);
  if (!*message) return true;
  if ((*message)->type != WireType::kReady || (*message)->cookie != client.session) {
    return drop(client, "it did not end its handshake properly");
  }
  client.state = State::kGoOn;
  return go_on(client);
}

/// Both ends know the new path. Returns true if it has to wait.
bool ResumeServer::go_on(Client& client) {
  bool waits = false;
  const bool known = process_.sessions().with(client.session, [&](ReceiveConnection& connection) {
    const Connection::Turn turn = connection.claim(Connection::kToTakeUp);
    if (!turn) {
      waits = true;
    } else if (client.lays_rail()) {
      connection.use_rail(client.arrival.message.rail.number, client.arrival.message.rail.sender_qp_link);
    } else {
      connection.announce_anew();
      connection.keep_control(std::move(client.arrival.socket));
    }
  });
  if (waits) Connection::Turn::pass();
  return known ? waits : drop(client, "its connection was closed meanwhile");
}

void ResumeServer::refuse(Client& client, WireType type, const std::string& why, std::uint64_t served) {
  tell(client, "is refused", why);
  client.writer.start({.type = type, .cookie = client.session, .end = {}, .reason = why, .served = served});
  client.state = State::kAnswering;
}

bool ResumeServer::drop(const Client& client, const std::string& why) {
  tell(client, "is dropped", why);
  return false;
}

void ResumeServer::tell(const Client& client, const char* of_it, const std::string& why) {
  const LogLevel level = lines_.next(LogLevel::kInfo);
  MESHBED_LOG(level, "client %s, which wants to resume a connection, %s: %s%s",
              to_text(client.arrival.remote.address).c_str(), of_it, why.c_str(),
              lines_.so_far("were not taken").c_str());
}

void ResumeServer::release(const Client& client) {
  process_.sessions().with(client.session,
                           [](ReceiveConnection& connection) { connection.release_claim(Connection::kToTakeUp); });
}

}  // namespace meshbed::net
