#include "plugin/net/connect/connecting.h"

#include <cerrno>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/link/sessions.h"
#include "plugin/net/wire/piece.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kFirstConnectPauseMs = 100;  // doubles with every attempt

}  // namespace

Connecting::Connecting(ProcessLinks& process, Destination destination, QpLink& qp_link)
    : process_(process),
      destination_(std::move(destination)),
      qp_link_(qp_link),
      dial_deadline_(Deadline::after_ms_or_never(destination_.patience_ms > 0 ? destination_.patience_ms
                                                 : destination_.dial_ms > 0
                                                     ? destination_.dial_ms
                                                     : process.config().number(Variable::kConnectTimeoutSec) * 1000)) {}

Result<bool> Connecting::advance() {
  while (state_ != State::kDone && state_ != State::kKept) {
    auto moved = step();
    if (!moved) return moved.error();
    if (!*moved) return false;
  }
  return true;
}

void Connecting::go_ahead() {
  if (state_ == State::kKept) state_ = State::kReady;
}

pollfd Connecting::watched() const {
  const bool reads = state_ == State::kReply;
  return {.fd = socket_.descriptor(), .events = static_cast<short>(reads ? POLLIN : POLLOUT), .revents = 0};
}

Result<bool> Connecting::step() {
  switch (state_) {
    case State::kDial:
      return dial();
    case State::kDialling:
      return await_dialling();
    case State::kRoute:
      return write_route();
    case State::kRequest:
      return write(State::kReply);
    case State::kReply:
      return read_reply();
    case State::kProof:
      return await_proof();
    case State::kReady:
      return write(State::kDone);
    case State::kKept:
    case State::kDone:
      break;
  }
  return true;
}

Result<bool> Connecting::dial() {
  if (attempts_ > 0 && !next_attempt_.passed()) {
    // Nothing to wait for here, but a simulated process must yield.
    ::poll(nullptr, 0, 0);
    return false;
  }
  ++attempts_;
  MESHBED_LOG(LogLevel::kTrace, "%s: dialling, attempt %d", ends_text().c_str(), attempts_);
  attempt_deadline_ = Deadline::after_ms_or_never(process_.config().number(Variable::kTimeoutMs));
  auto socket = begin_connect(destination_.route.local.address, destination_.target);
  if (!socket) return retry_or_fail(socket.error());
  socket_ = std::move(*socket);
  state_ = State::kDialling;
  return true;
}

Result<bool> Connecting::await_dialling() {
  auto connected = finish_connect(socket_);
  if (!connected) return retry_or_fail(connected.error());
  if (*connected) {
    MESHBED_LOG(LogLevel::kTrace, "%s: TCP is connected, sending the request", ends_text().c_str());
    if (destination_.onward) {
      writer_.start({.type = WireType::kRoute,
                     .cookie = destination_.cookie,
                     .end = {},
                     .reason = "",
                     .route = *destination_.onward});
    } else {
      writer_.start(request());
    }
    reply_deadline_ = destination_.patience_ms > 0
                          ? Deadline::after_ms_or_never(destination_.patience_ms)
                          : Deadline::after_ms_or_never(process_.config().number(Variable::kAcceptTimeoutSec) * 1000);
    state_ = destination_.onward ? State::kRoute : State::kRequest;
    return true;
  }
  if (dial_deadline_.passed() && destination_.patience_ms == 0) {
    return unreachable(destination_.dial_ms > 0
                           ? "no reply within " + std::to_string(destination_.dial_ms) +
                                 " ms, this cable's share of NCCL_MESH_CONNECT_TIMEOUT_SEC"
                           : "no reply within " + process_.config().text(Variable::kConnectTimeoutSec) +
                                 " s (NCCL_MESH_CONNECT_TIMEOUT_SEC)");
  }
  if (attempt_deadline_.passed() || dial_deadline_.passed()) {
    return retry_or_fail({.code = ErrorCode::kTimeout,
                          .scope = Scope::kQueuePair,
                          .text = "no reply within " +
                                  (destination_.patience_ms > 0 ? std::to_string(destination_.patience_ms)
                                                                : process_.config().text(Variable::kTimeoutMs)) +
                                  " ms",
                          .os_errno = ETIMEDOUT});
  }
  return false;
}

Result<bool> Connecting::retry_or_fail(const Error& error) {
  if (has_no_more_attempts()) {
    // The node is up and the port is closed: the process that listened on it has ended.
    final_ = error.os_errno == ECONNREFUSED && !destination_.onward;
    return unreachable(error.text + " (attempt " + std::to_string(attempts_) + ")");
  }
  next_attempt_ = Deadline::after_ms_or_never(kFirstConnectPauseMs << (attempts_ - 1 < 8 ? attempts_ - 1 : 8));
  socket_.close();
  state_ = State::kDial;
  return false;
}

bool Connecting::has_no_more_attempts() const {
  return destination_.patience_ms > 0 || attempts_ >= process_.config().number(Variable::kRetryCount) ||
         dial_deadline_.passed();
}

WireMessage Connecting::request() const {
  WireMessage message{
      .type = WireType::kRequest, .cookie = destination_.cookie, .end = qp_link_.describe(), .reason = ""};
  if (destination_.rail) {
    message.type = WireType::kRail;
    message.rail = *destination_.rail;
  } else if (destination_.resumes && !destination_.onward) {
    message.type = WireType::kResume;
  }
  return message;
}

Result<bool> Connecting::write_route() {
  auto written = write(State::kRequest);
  if (written && *written) writer_.start(request());
  return written;
}

Result<bool> Connecting::write(State next) {
  auto written = writer_.write(socket_);
  if (!written) return handshake_error(ends_text() + ": " + written.error().text);
  if (*written) state_ = next;
  return *written;
}

Result<bool> Connecting::read_reply() {
  auto message = reader_.read(socket_);
  if (!message) return handshake_error(ends_text() + ": " + message.error().text + ": see the peer's log");
  if (!*message) {
    if (!reply_deadline_.passed()) return false;
    std::string text = ends_text() + ": TCP is connected, but the peer has not ";
    text += destination_.patience_ms > 0
                ? "replied within " + std::to_string(destination_.patience_ms) + " ms"
                : "accepted within " + process_.config().text(Variable::kAcceptTimeoutSec) +
                      " s (NCCL_MESH_ACCEPT_TIMEOUT_SEC): its process is busy elsewhere or does not call accept";
    return Error{.code = ErrorCode::kTimeout, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0};
  }
  const WireMessage& reply = **message;
  if (auto fine = check_reply(reply); !fine) return fine.error();
  if (auto joined = qp_link_.join(reply.end, reply.end.mtu); !joined) return joined.error();
  served_ = reply.served;
  session_ = reply.type == WireType::kResumed ? reply.session : session_number(qp_link_.describe(), reply.end);
  session_port_ = reply.type == WireType::kResumed ? reply.session_port : reply.end.service_port;
  writer_.start({.type = WireType::kReady, .cookie = destination_.cookie, .end = {}, .reason = ""});
  state_ = destination_.keeps_ready ? State::kKept : State::kReady;
  return destination_.rail ? begin_proof() : true;
}

/// A rail is optional, unlike the QP link. So it is announced only after an empty write over it was acknowledged: RDMA
/// may be blocked where TCP gets through, and each message striped over the rail would then cost all retries of the
/// adapter.
Result<bool> Connecting::begin_proof() {
  ibv_send_wr work{};
  ibv_send_wr* refused = nullptr;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.send_flags = IBV_SEND_SIGNALED;
  if (const int error = ibv_post_send(qp_link_.pair().raw(), &work, &refused)) {
    return handshake_error(ends_text() + ": the send queue refuses work: " + std::strerror(error));
  }
  state_ = State::kProof;
  return true;
}

Result<bool> Connecting::await_proof() {
  ibv_wc found[1];
  const int count = qp_link_.completions().poll(found);
  if (count == 0) return false;
  if (count < 0 || found[0].status != IBV_WC_SUCCESS) {
    return handshake_error(ends_text() + ": TCP gets through, but RDMA does not (RoCE v2 is UDP to port 4791): " +
                           (count > 0 ? ibv_wc_status_str(found[0].status) : "no completion can be polled"));
  }
  state_ = State::kReady;
  return true;
}

Result<void> Connecting::check_reply(const WireMessage& reply) {
  final_ = reply.type == WireType::kGone;
  refused_ = final_ || reply.type == WireType::kRefuse;
  served_ = final_ ? reply.served : 0;
  if (final_) return handshake_error(ends_text() + ": the peer's connection is gone: " + reply.reason);
  if (refused_) return handshake_error(ends_text() + ": the peer refuses: " + reply.reason);
  const char* problem = nullptr;
  WireType wanted = destination_.resumes || destination_.onward ? WireType::kResumed : WireType::kReply;
  if (destination_.rail) wanted = WireType::kRailed;
  if (reply.type != wanted || reply.cookie != destination_.cookie) {
    problem = "the reply does not belong to this connection";
  } else if (reply.end.memory_entries != (destination_.onward ? kPieceSlots : kRingEntries)) {
    problem = "the peer's ring has another size: install the same plugin on all nodes";
  } else if (reply.end.address.address != destination_.target.address) {
    problem = "the peer answered for another address than the one that was dialled";
  } else if (reply.end.mtu > qp_link_.local().nic.mtu) {
    problem = "the peer chose a path MTU that our port does not have";
  } else if (reply.end.gid_type != destination_.route.gid.type) {
    problem = "the peer's GID is of another RoCE version";
  } else if (!gid_may_answer(qp_link_.local().nic, reply.end.gid, reply.end.address.address,
                             process_.gid_preference())) {
    return handshake_error(ends_text() + ": " + foreign_gid_text(reply.end.gid, reply.end.address.address));
  } else {
    return ok();
  }
  return handshake_error(ends_text() + ": " + problem);
}

Error Connecting::unreachable(const std::string& why) const {
  const Route& route = destination_.route;
  std::string text = "no connection " + ends_text() + ": " + why;
  if (route.routed) {
    text += "; " + subnet_text(route.local) +
            " is not its subnet: does a router join them, and does each of the two "
            "ports have a route to the other by way of it?";
  } else {
    text += "; both are in " + subnet_text(route.local) + ": is the cable in these two ports, and is the link up?";
  }
  return {.code = ErrorCode::kUnreachable, .scope = Scope::kPort, .text = std::move(text), .os_errno = 0};
}

std::string Connecting::ends_text() const {
  return qp_link_.local().nic.device_name + " " + to_text(destination_.route.local) + " -> " +
         (destination_.onward ? "relay's " : "peer's ") + to_text(destination_.route.remote.prefix) + " port " +
         std::to_string(destination_.target.port);
}

}  // namespace meshbed::net
