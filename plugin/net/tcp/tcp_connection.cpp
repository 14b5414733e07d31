#include "plugin/net/tcp/tcp_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/net/process/discovery.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/tcp/tcp_network.h"

namespace meshbed::net {
namespace {

/// Polls between two readings of the clock.
constexpr std::uint32_t kLooksBetweenClocks = 16;

void set_option(const Socket& socket, int name, int value) {
  // The options only affect speed and time-outs: a kernel without one detects a dead peer later.
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, name, &value, sizeof value);
}

iovec range(const void* data, std::size_t size) { return {.iov_base = const_cast<void*>(data), .iov_len = size}; }

}  // namespace

TcpConnection::TcpConnection(ObjectKind kind, TcpEnds ends, const TcpSettings& settings, TcpNetwork& network)
    : Endpoint(kind), pool_(this), ends_(std::move(ends)), settings_(settings), network_(network), made_ns_(now_ns()) {
  set_option(ends_.socket, TCP_NODELAY, 1);
  set_option(ends_.socket, TCP_USER_TIMEOUT, static_cast<int>(settings_.patience_ms));
}

TcpConnection::~TcpConnection() {
  pool_.for_each_in_use([](Request& request) {
    if (request.memory != nullptr) request.memory->drop();
  });
  network_.linger(std::move(ends_.socket));
}

TcpConnection::Progress TcpConnection::test(Request& request, int* sizes) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return Progress::kPending;
  }
  if (!request.done && !failed()) progress();
  if (!request.done) {
    if (!failed() && in_time(request)) return Progress::kPending;
    end_events(request, false);
    return Progress::kFailed;
  }
  if (sizes != nullptr) {
    for (std::size_t part = 0; part < request.parts; ++part) sizes[part] = static_cast<int>(request.sizes[part]);
  }
  pool_.give_back(request);
  return Progress::kDone;
}

void TcpConnection::close() {
  in_turn([this] { finish_all(); });
}

void TcpConnection::finish_all() {
  const std::size_t unfinished = pool_.in_use();
  const bool broke = failed();
  closing();
  pool_.for_each_in_use([this](Request& request) { end_events(request, false); });
  MESHBED_INFO("connection-summary transport=tcp direction=%s peer=%s nic=%s ops=%" PRIu64 " bytes=%" PRIu64
               " unfinished=%zu errors=%d",
               direction_name(), to_text(ends_.remote.address).c_str(), ends_.netdev.c_str(), operations_, bytes_,
               unfinished, broke ? 1 : 0);
}

std::size_t TcpConnection::read(std::span<std::uint8_t> first, std::span<std::uint8_t> second) {
  iovec ranges[2] = {range(first.data(), first.size()), range(second.data(), second.size())};
  msghdr message{};
  message.msg_iov = first.empty() ? ranges + 1 : ranges;
  message.msg_iovlen = first.empty() || second.empty() ? 1 : 2;
  return moved(::recvmsg(ends_.socket.descriptor(), &message, 0), true);
}

std::size_t TcpConnection::write(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second) {
  if (cannot_write_) return 0;
  iovec ranges[2] = {range(first.data(), first.size()), range(second.data(), second.size())};
  msghdr message{};
  message.msg_iov = first.empty() ? ranges + 1 : ranges;
  message.msg_iovlen = first.empty() || second.empty() ? 1 : 2;
  return moved(::sendmsg(ends_.socket.descriptor(), &message, MSG_NOSIGNAL), false);
}

std::size_t TcpConnection::moved(ssize_t count, bool reading) {
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  // The first reason is the useful one: a reset is followed only by an end of file.
  cannot_write_ = cannot_write_ || count < 0 || !reading;
  if (!lost()) status_ = count < 0 ? std::strerror(errno) : reading ? "end of the stream" : "nothing was taken";
  return 0;
}

void TcpConnection::settle() {
  if (!lost() || failed()) return;
  const auto interfaces = read_interfaces();
  const bool here = interfaces && std::any_of(interfaces->begin(), interfaces->end(), [this](const auto& interface) {
                      return interface.netdev == ends_.netdev && !interface.up;
                    });
  char text[512];
  std::snprintf(text, sizeof text,
                "failure peer=%s (%s) nic=%s local=%s transport=tcp op=%s status=\"%s\" conn_age=%" PRId64 "ms: %s",
                to_text(ends_.remote.address).c_str(), ends_.peer_netdev.c_str(), ends_.netdev.c_str(),
                to_text(ends_.local).c_str(), direction_name(), status_.c_str(), (now_ns() - made_ns_) / 1'000'000,
                here ? "our interface is down: look at the cable and the port"
                     : "the peer's process ended or closed its end, or its machine is gone: see the log there");
  fail({.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = text, .os_errno = 0});
}

void TcpConnection::note_silence() {
  if (++empty_looks_ % kLooksBetweenClocks != 0 || failed()) return;
  const std::int64_t now = now_ns();
  if (!silence_.has_begun()) silence_.begin(now, next_number());
  if (silence_.is_due(now)) greet();
}

const Error& TcpConnection::keep_failure(Error error) {
  if (!failed()) {
    MESHBED_WARN("%s", error.text.c_str());
    failure_ = std::move(error);
  }
  return *failure_;
}

const Error& TcpConnection::fail(Error error) {
  const bool first = !failed();
  const Error& kept = keep_failure(std::move(error));
  // The peer sees the end of the stream, and nothing more is written into buffers that may be freed now.
  if (first) ::shutdown(ends_.socket.descriptor(), SHUT_RDWR);
  return kept;
}

void TcpConnection::fail_peer(const std::string& what) {
  fail(describe(ErrorCode::kRemote, "the peer sent " + what + "; the connection ends here"));
}

Error TcpConnection::describe(ErrorCode code, const std::string& what) const {
  return {.code = code, .scope = Scope::kQueuePair, .text = ends_text() + ": " + what, .os_errno = 0};
}

/// False: late, and failed.
bool TcpConnection::in_time(Request& request) {
  if (settings_.operation_timeout_ns == 0 || request.reported) return true;
  const std::int64_t waited_ns = now_ns() - request.posted_ns;
  if (waited_ns < settings_.operation_timeout_ns) return true;
  request.reported = true;
  Error error =
      describe(ErrorCode::kTimeout, std::string("a ") + direction_name() + " has not completed for " +
                                        std::to_string(waited_ns / 1'000'000'000) + " s (NCCL_MESH_TIMEOUT_SEC), " +
                                        std::to_string(pool_.in_use()) + " requests are outstanding");
  if (settings_.fatal_on_timeout) {
    fail(std::move(error));
    return false;
  }
  MESHBED_WARN("%s", error.text.c_str());
  return true;
}

Request& TcpConnection::take_request() {
  Request& request = pool_.take();
  if (settings_.operation_timeout_ns != 0) request.posted_ns = now_ns();
  return request;
}

void TcpConnection::finish(Request& request, std::uint64_t bytes) {
  request.done = true;
  end_events(request, true);
  ++operations_;
  bytes_ += bytes;
  if (request.memory != nullptr) std::exchange(request.memory, nullptr)->drop();
}

std::string TcpConnection::ends_text() const {
  return ends_.netdev + " " + to_text(ends_.local) + " -> " + ends_.peer_netdev + " " + to_text(ends_.remote.address) +
         " over TCP";
}

TcpSettings tcp_settings(const Config& config) {
  const std::int64_t patience_s = config.number(Variable::kFailoverTimeoutSec);
  TcpSettings settings{.operation_timeout_ns = config.number(Variable::kTimeoutSec) * 1'000'000'000,
                       .fatal_on_timeout = config.flag(Variable::kFatalOnTimeout)};
  if (patience_s > 0) settings.patience_ms = patience_s * 1000;
  return settings;
}

}  // namespace meshbed::net
