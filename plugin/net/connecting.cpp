#include "plugin/net/connecting.h"

#include <poll.h>

#include <cerrno>

#include "plugin/base/log.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kFirstPauseMs = 100;  // doubles with every attempt

Error logged(Error error) {
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

Error remote(std::string text) {
  return {.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0};
}

}  // namespace

Connecting::Connecting(Transport& transport, const Handle& peer, const Route& route)
    : transport_(transport), peer_(peer), route_(route) {}

Result<std::unique_ptr<Connecting>> Connecting::begin(Transport& transport, const Handle& peer, int dev,
                                                      int traffic_class) {
  const std::vector<Nic> nics = transport.current_nics();
  auto route = choose_route({.nics = &nics,
                             .peer = peer.addresses,
                             .same_node = peer.node == transport.node(),
                             .dev = dev,
                             .peer_dev = peer.dev,
                             .gids = transport.gid_preference()});
  if (!route) return logged(route.error());
  const Nic& nic = nics[static_cast<std::size_t>(route->nic)];
  if (route->overridden) {
    MESHBED_INFO("device %d (%s) has no path to the peer: using device %d (%s), whose %s reaches %s", dev,
                 nics[static_cast<std::size_t>(dev)].device_name.c_str(), route->nic, nic.device_name.c_str(),
                 subnet_text(route->local).c_str(), to_text(route->remote.prefix.address).c_str());
  }
  std::unique_ptr<Connecting> connecting(new Connecting(transport, peer, *route));
  connecting->nic_name_ = nic.device_name;
  auto connection = SendConnection::create({.device = &transport.device_of(nic),
                                            .nic = nic,
                                            .address = route->local,
                                            .gid = route->gid,
                                            .node = transport.node(),
                                            .psn = static_cast<std::uint32_t>(transport.random() & 0xffffffU)},
                                           transport.settings_for(traffic_class));
  if (!connection) return logged(connection.error());
  connecting->connection_ = std::move(*connection);
  connecting->dial_deadline_ = Deadline::in_ms(transport.config().number(Variable::kConnectTimeoutSec) * 1000);
  return connecting;
}

Result<std::unique_ptr<SendConnection>> Connecting::advance() {
  while (state_ != State::kDone) {
    auto moved = step();
    if (!moved) return logged(moved.error());
    if (!*moved) return std::unique_ptr<SendConnection>();
  }
  return std::move(connection_);
}

Result<bool> Connecting::step() {
  switch (state_) {
    case State::kDial:
      return dial();
    case State::kDialling:
      return await_dialling();
    case State::kRequest:
      return write(State::kReply);
    case State::kReply:
      return read_reply();
    case State::kReady:
      return write(State::kDone);
    case State::kDone:
      break;
  }
  return true;
}

Result<bool> Connecting::dial() {
  if (attempts_ > 0 && !next_attempt_.passed()) {
    // Nothing to look at, but whoever runs us may use the moment.
    ::poll(nullptr, 0, 0);
    return false;
  }
  ++attempts_;
  MESHBED_LOG(LogLevel::kTrace, "%s: dialling, attempt %d", ends_text().c_str(), attempts_);
  attempt_deadline_ = Deadline::in_ms(transport_.config().number(Variable::kTimeoutMs));
  auto socket =
      Socket::begin_connect(route_.local.address, {.address = route_.remote.prefix.address, .port = peer_.tcp_port});
  if (!socket) return retry_or_fail(socket.error());
  socket_ = std::move(*socket);
  state_ = State::kDialling;
  return true;
}

Result<bool> Connecting::await_dialling() {
  auto connected = socket_.finish_connect();
  if (!connected) return retry_or_fail(connected.error());
  if (*connected) {
    WireMessage request{
        .type = WireType::kRequest, .cookie = peer_.cookie, .end = connection_->describe(), .reason = ""};
    MESHBED_LOG(LogLevel::kTrace, "%s: TCP stands, sending the request", ends_text().c_str());
    writer_.start(request);
    reply_deadline_ = Deadline::in_ms(transport_.config().number(Variable::kAcceptTimeoutSec) * 1000);
    state_ = State::kRequest;
    return true;
  }
  if (dial_deadline_.passed()) {
    return unreachable("nobody answered within " + transport_.config().text(Variable::kConnectTimeoutSec) +
                       " s (NCCL_MESH_CONNECT_TIMEOUT_SEC)");
  }
  if (attempt_deadline_.passed()) {
    return retry_or_fail({.code = ErrorCode::kTimeout,
                          .scope = Scope::kQueuePair,
                          .text = "nobody answered within " + transport_.config().text(Variable::kTimeoutMs) + " ms",
                          .os_errno = ETIMEDOUT});
  }
  return false;
}

Result<bool> Connecting::retry_or_fail(const Error& error) {
  if (attempts_ >= transport_.config().number(Variable::kRetryCount) || dial_deadline_.passed()) {
    return unreachable(error.text + " (attempt " + std::to_string(attempts_) + ")");
  }
  next_attempt_ = Deadline::in_ms(kFirstPauseMs << (attempts_ - 1 < 8 ? attempts_ - 1 : 8));
  socket_.close();
  state_ = State::kDial;
  return false;
}

Result<bool> Connecting::write(State next) {
  auto written = writer_.write(socket_);
  if (!written) return remote(ends_text() + ": " + written.error().text);
  if (*written) state_ = next;
  return *written;
}

Result<bool> Connecting::read_reply() {
  auto message = reader_.read(socket_);
  if (!message) return remote(ends_text() + ": " + message.error().text + ": see the peer's log");
  if (!*message) {
    if (!reply_deadline_.passed()) return false;
    return Error{.code = ErrorCode::kTimeout,
                 .scope = Scope::kQueuePair,
                 .text = ends_text() + ": TCP stands, but the peer has not accepted within " +
                         transport_.config().text(Variable::kAcceptTimeoutSec) +
                         " s (NCCL_MESH_ACCEPT_TIMEOUT_SEC): its process is busy elsewhere or does not call accept",
                 .os_errno = 0};
  }
  const WireMessage& reply = **message;
  if (auto fine = check_reply(reply); !fine) return fine.error();
  if (auto joined = connection_->join(reply.end, reply.end.mtu); !joined) return joined.error();
  writer_.start({.type = WireType::kReady, .cookie = peer_.cookie, .end = {}, .reason = ""});
  state_ = State::kReady;
  return true;
}

Result<void> Connecting::check_reply(const WireMessage& reply) const {
  if (reply.type == WireType::kRefuse) return remote(ends_text() + ": the peer refuses: " + reply.reason);
  const char* problem = nullptr;
  if (reply.type != WireType::kReply || reply.cookie != peer_.cookie) {
    problem = "the answer does not belong to this connection";
  } else if (reply.end.memory_entries != kRingEntries) {
    problem = "the peer's ring has another size: install the same plugin on all nodes";
  } else if (reply.end.address.address != route_.remote.prefix.address) {
    problem = "the peer answered for another address than the one that was dialled";
  } else if (reply.end.mtu > connection_->local().nic.mtu) {
    problem = "the peer chose a path MTU that our port does not have";
  } else if (reply.end.gid_type != route_.gid.type) {
    problem = "the peer's GID is of another RoCE version";
  } else if (!gid_may_answer(connection_->local().nic, reply.end.gid, reply.end.address.address,
                             transport_.gid_preference())) {
    return remote(ends_text() + ": " + foreign_gid_text(reply.end.gid, reply.end.address.address));
  } else {
    return ok();
  }
  return remote(ends_text() + ": " + problem);
}

Error Connecting::unreachable(const std::string& why) const {
  return {.code = ErrorCode::kUnreachable,
          .scope = Scope::kPort,
          .text = "no connection " + ends_text() + ": " + why + "; both are in " + subnet_text(route_.local) +
                  ": is the cable in these two ports, and is the link up?",
          .os_errno = 0};
}

std::string Connecting::ends_text() const {
  return nic_name_ + " " + to_text(route_.local) + " -> peer's " + to_text(route_.remote.prefix) + " port " +
         std::to_string(peer_.tcp_port);
}

}  // namespace meshbed::net
