#include "plugin/net/tcp/tcp_connecting.h"

#include <poll.h>

#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/process/process.h"

namespace meshbed::net {
namespace {

/// After each round over all addresses; doubles with every round.
constexpr std::int64_t kFirstTcpPauseMs = 100;
constexpr std::size_t kDoublingsMost = 8;

}  // namespace

TcpConnecting::TcpConnecting(const Process& process, TcpNetwork& network, const Handle& peer,
                             std::vector<TcpRoute> routes, std::string why)
    : process_(process),
      network_(network),
      peer_(peer),
      routes_(std::move(routes)),
      why_(std::move(why)),
      give_up_(Deadline::after_ms_or_never(process.config().number(Variable::kConnectTimeoutSec) * 1000)) {}

Result<std::unique_ptr<TcpConnecting>> TcpConnecting::begin(const Process& process, TcpNetwork& network,
                                                            const Handle& peer, int dev, std::string why) {
  const std::string& preferred = process.nics()[static_cast<std::size_t>(dev)].netdev;
  const auto interfaces = network.interfaces();
  if (!interfaces) return interfaces.error();
  auto routes = tcp_routes(*interfaces, peer.tcp_addresses, preferred, peer.node == process.node());
  if (!routes.empty()) {
    return std::unique_ptr<TcpConnecting>(new TcpConnecting(process, network, peer, std::move(routes), std::move(why)));
  }
  std::string there;
  for (const PeerAddress& address : peer.tcp_addresses) {
    there += (there.empty() ? "" : ", ") + to_text(address.prefix);
  }
  return Error{.code = ErrorCode::kUnreachable,
               .scope = Scope::kPort,
               .text = why + "; the peer cannot be reached over TCP" + (network.everything() ? "" : " either") +
                       ": this node has " + network.describe() + "; the peer " +
                       (there.empty() ? "has no address for it" : "has " + there),
               .os_errno = 0};
}

Result<std::unique_ptr<TcpSendConnection>> TcpConnecting::advance() {
  for (;;) {
    auto moved = step();
    if (!moved) return moved.error();
    if (!*moved) return std::unique_ptr<TcpSendConnection>();
    if (state_ == State::kReady) {
      auto written = writer_.write(socket_);
      if (!written) return error(ErrorCode::kRemote, written.error().text);
      if (!*written) return std::unique_ptr<TcpSendConnection>();
      return finished();
    }
  }
}

Result<bool> TcpConnecting::step() {
  switch (state_) {
    case State::kDial:
      return dial();
    case State::kDialling:
      return await_dialling();
    case State::kRequest: {
      auto written = writer_.write(socket_);
      if (!written) return error(ErrorCode::kRemote, written.error().text);
      if (*written) state_ = State::kReply;
      return *written;
    }
    case State::kReply:
      return read_reply();
    case State::kReady:
      break;
  }
  return true;
}

Result<bool> TcpConnecting::dial() {
  if (attempts_ > 0 && !next_attempt_.passed()) {
    // Nothing to wait for here, but a simulated process must yield.
    ::poll(nullptr, 0, 0);
    return false;
  }
  attempt_deadline_ = Deadline::after_ms_or_never(process_.config().number(Variable::kTimeoutMs));
  auto socket = begin_connect(route().local.address, {.address = route().remote, .port = peer_.tcp_port});
  if (!socket) return next_or_fail(socket.error().text);
  socket_ = std::move(*socket);
  state_ = State::kDialling;
  return true;
}

Result<bool> TcpConnecting::await_dialling() {
  auto connected = finish_connect(socket_);
  if (!connected) return next_or_fail(connected.error().text);
  if (!*connected) {
    if (!attempt_deadline_.passed() && !give_up_.passed()) return false;
    return next_or_fail("no reply within " + process_.config().text(Variable::kTimeoutMs) +
                        " ms (NCCL_MESH_TIMEOUT_MS)");
  }
  writer_.start({.type = WireType::kTcpRequest,
                 .cookie = peer_.cookie,
                 .end = {},
                 .reason = "",
                 .tcp = {.node = process_.node(), .netdev = route().netdev}});
  reply_deadline_ = Deadline::after_ms_or_never(process_.config().number(Variable::kAcceptTimeoutSec) * 1000);
  state_ = State::kRequest;
  return true;
}

Result<bool> TcpConnecting::next_or_fail(const std::string& problem) {
  const auto rounds = static_cast<std::size_t>(process_.config().number(Variable::kRetryCount));
  if (attempts_ + 1 >= rounds * routes_.size() || give_up_.passed()) {
    return error(ErrorCode::kUnreachable, problem + " (attempt " + std::to_string(attempts_ + 1) +
                                              "): is the interface the right one (NCCL_SOCKET_IFNAME), and does a "
                                              "firewall stand in between?");
  }
  MESHBED_INFO("%s", error(ErrorCode::kUnreachable, problem + ", trying on").text.c_str());
  ++attempts_;
  // The next address at once; a pause after each round.
  const std::size_t rounds_done = attempts_ / routes_.size();
  next_attempt_ = Deadline::after_ms_or_never(
      attempts_ % routes_.size() == 0 ? kFirstTcpPauseMs << std::min(rounds_done - 1, kDoublingsMost) : 1);
  socket_.close();
  state_ = State::kDial;
  return false;
}

Result<bool> TcpConnecting::read_reply() {
  auto message = reader_.read(socket_);
  if (!message) return error(ErrorCode::kRemote, message.error().text + ": see the peer's log");
  if (!*message) {
    if (!reply_deadline_.passed()) return false;
    return error(ErrorCode::kTimeout, "TCP is connected, but the peer has not accepted within " +
                                          process_.config().text(Variable::kAcceptTimeoutSec) +
                                          " s (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  }
  const WireMessage& reply = **message;
  if (reply.type == WireType::kRefuse) return error(ErrorCode::kRemote, "the peer refuses: " + reply.reason);
  if (reply.type != WireType::kTcpReply || reply.cookie != peer_.cookie || reply.tcp.node != peer_.node) {
    return error(ErrorCode::kRemote, "the reply does not belong to this connection");
  }
  peer_netdev_ = reply.tcp.netdev;
  writer_.start({.type = WireType::kReady, .cookie = peer_.cookie, .end = {}, .reason = ""});
  state_ = State::kReady;
  return true;
}

std::unique_ptr<TcpSendConnection> TcpConnecting::finished() {
  TcpEnds ends{.socket = std::move(socket_),
               .netdev = route().netdev,
               .local = route().local.address,
               .peer_netdev = peer_netdev_,
               .remote = {.address = route().remote, .port = peer_.tcp_port}};
  // TCP is many times slower than a cable, so it is never used without a warning; for everything, init() has logged it.
  const bool warn = !network_.everything() && network_.first_time(peer_.node);
  MESHBED_LOG(warn ? LogLevel::kWarn : LogLevel::kInfo,
              "the peer %s is reached over TCP on %s (%s), not by RDMA: slow, and this processor copies every byte "
              "(NCCL_MESH_HYBRID_TCP=1 allows it); %s",
              to_text(ends.remote.address).c_str(), ends.netdev.c_str(), to_text(ends.local).c_str(), why_.c_str());
  return std::make_unique<TcpSendConnection>(std::move(ends), tcp_settings(process_.config()), network_);
}

Error TcpConnecting::error(ErrorCode code, const std::string& what) const {
  return {.code = code,
          .scope = Scope::kQueuePair,
          .text = "no connection over TCP from " + route().netdev + " " + to_text(route().local) + " to " +
                  to_text(route().remote) + " port " + std::to_string(peer_.tcp_port) + ": " + what +
                  "; why TCP: " + why_,
          .os_errno = 0};
}

}  // namespace meshbed::net
